import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { createEmulator, type Emulator, type EmulatorOptions } from './index.js';

const HELP = `scf-sandbox: a local emulator of the shared SCF sandbox container

Usage: scf-sandbox [start] [options]

  --port N               port to listen on (default 9000; 0 takes a free one)
  --host ADDRESS         address to listen on (default 127.0.0.1; any other forces --auth strict)
  --data-dir DIR         where workspaces and keys are kept (default ~/.scf-sandbox)
  --ephemeral            keep nothing after the emulator stops
  --isolation MODE       auto | require | none (default auto)
  --auth MODE            lenient | strict (default lenient)
  --token-ttl SECONDS    lifetime of access tokens (default 432000)
  --allowed-host NAME    accept this Host too (may be repeated)
  --allowed-origin URL   accept calls of this web page's origin (may be repeated)
  --pass-env NAME        give commands this variable of the emulator's environment (may be repeated)
  --strict-fields        refuse unknown fields in request bodies
  --cancel-on-disconnect end a command when its client goes away
  --log FORMAT           auto | pretty | json | silent (default auto)
  --version, --help

Environment: SCF_SANDBOX_SECRET_ID and SCF_SANDBOX_SECRET_KEY set the key pair that the token
endpoint accepts; without them any pair will do on a loopback address.
`;

const OPTIONS = {
  port: { type: 'string' },
  host: { type: 'string' },
  'data-dir': { type: 'string' },
  ephemeral: { type: 'boolean' },
  isolation: { type: 'string' },
  auth: { type: 'string' },
  'token-ttl': { type: 'string' },
  'allowed-host': { type: 'string', multiple: true },
  'allowed-origin': { type: 'string', multiple: true },
  'pass-env': { type: 'string', multiple: true },
  'strict-fields': { type: 'boolean' },
  'cancel-on-disconnect': { type: 'boolean' },
  log: { type: 'string' },
  version: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

/** Runs the command line and resolves with the exit code: 0, 1 for a failed start, 2 for wrong usage. */
export async function runCli(argv: string[]): Promise<number> {
  try {
    const { values, positionals } = parseArgs({ args: argv, options: OPTIONS, allowPositionals: true });
    if (values.help) return print(HELP);
    if (values.version) return print(`${readVersion()}\n`);
    if (positionals.length > 1 || (positionals[0] ?? 'start') !== 'start')
      return fail(`Unknown command ${positionals.join(' ')}; see scf-sandbox --help`, 2);
    const { help: _help, version: _version, ...settings } = values;
    return await serve(toOptions(settings));
  } catch (error) {
    if (error instanceof z.ZodError) return fail(describeSettings(error), 2);
    if (error instanceof TypeError && 'code' in error) return fail(`${error.message}\nSee scf-sandbox --help`, 2); // from parseArgs
    return fail(error instanceof Error ? error.message : String(error), 1);
  }
}

/** The first signal stops gracefully, the second at once; both also while the emulator still starts. */
async function serve(options: EmulatorOptions): Promise<number> {
  const stops: Array<(emulator: Emulator) => Promise<void>> = [
    (emulator) => emulator.close(),
    (emulator) => emulator.kill(),
  ];
  const stopped = new Promise<void>((resolve, reject) => {
    const onSignal = () => {
      const stop = stops.shift();
      if (stop) starting.then(stop).then(resolve, reject);
    };
    process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  });
  const starting = createEmulator(options);
  stopped.catch(() => {}); // a failed start is told once, below
  await starting;
  await stopped;
  return 0;
}

function toOptions(settings: Record<string, unknown>): EmulatorOptions {
  const { SCF_SANDBOX_SECRET_ID: secretId, SCF_SANDBOX_SECRET_KEY: secretKey } = process.env;
  const named = Object.entries(settings).map(([name, value]) => [
    name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase()),
    value,
  ]);
  // createEmulator checks every setting; here only the spelling changes.
  return {
    ...Object.fromEntries(named),
    ...(secretId && secretKey ? { credentials: { secretId, secretKey } } : {}),
  } as EmulatorOptions;
}

function describeSettings(error: z.ZodError): string {
  return error.issues
    .map(
      (issue) =>
        `--${String(issue.path[0] ?? '').replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}: ${issue.message}`,
    )
    .join('\n');
}

function readVersion(): string {
  const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  return manifest.version;
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

function fail(message: string, code: number): number {
  process.stderr.write(`scf-sandbox: ${message}\n`);
  return code;
}
