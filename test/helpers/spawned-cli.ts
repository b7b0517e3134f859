import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { eventually } from './emulator.js';

const MAIN = fileURLToPath(new URL('../../dist/emulator/main.js', import.meta.url));

/** The command line in a process of its own, with a JSON log; resolves once it takes requests. */
export async function startCli(...options: string[]) {
  const child = spawn(process.execPath, [MAIN, '--port', '0', '--ephemeral', '--log', 'json', ...options], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = collect(child);
  const lines = () =>
    output()
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const url = () => lines().find(({ event }) => event === 'ready')?.url;
  await eventually('the command line is ready', () => {
    if (child.exitCode !== null) throw new Error(`the command line ended with ${child.exitCode}: ${output()}`);
    return url() !== undefined;
  });
  return {
    url: String(url()),
    /** Everything that was written to standard output and standard error. */
    output,
    /** What was logged. */
    lines,
    async stop(): Promise<void> {
      const exit = once(child, 'exit');
      child.kill('SIGTERM');
      await exit;
    },
  };
}

function collect(child: ChildProcess): () => string {
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
  }
  return () => text;
}
