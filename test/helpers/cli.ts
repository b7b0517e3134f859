import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

export const PROJECT_ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MAIN = path.join(PROJECT_ROOT, 'dist/emulator/main.js');

/** One line of the JSON log. */
export type LogLine = Record<string, unknown> & { event?: string; msg?: string };

export type RunningCli = {
  child: ChildProcess;
  pid: number;
  /** Everything on standard output so far that was JSON. */
  lines: LogLine[];
  stderr(): string;
  /** Resolves with the first line, also an earlier one, that matches; rejects when the program ends before. */
  line(matches: (line: LogLine) => boolean): Promise<LogLine>;
  /** Resolves with the exit code, or the signal's name. */
  ended: Promise<number | NodeJS.Signals>;
};

type SpawnOptions = { env?: NodeJS.ProcessEnv; file?: string; args?: string[]; stdio?: Array<'pipe' | number> };

/**
 * Starts the command line as a user does. What still runs when the test is over is killed.
 *
 * @param argv Arguments of `scf-sandbox`.
 */
export function runCli(
  argv: string[],
  { env = process.env, file = process.execPath, args = [MAIN], stdio = [] }: SpawnOptions = {},
): RunningCli {
  const child = spawn(file, [...args, ...argv], {
    cwd: PROJECT_ROOT,
    env,
    stdio: ['ignore', 'pipe', 'pipe', ...stdio],
  });
  const lines: LogLine[] = [];
  const waiting = new Set<() => void>();
  let pending = '';
  let stderr = '';
  child.stderr?.on('data', (chunk) => {
    stderr += chunk;
  });
  child.stdout?.on('data', (chunk) => {
    pending += chunk;
    const complete = pending.split('\n');
    pending = complete.pop() ?? '';
    for (const line of complete) if (line.startsWith('{')) lines.push(JSON.parse(line));
    for (const look of waiting) look();
  });
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals);
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await ended;
  });

  return {
    child,
    pid: child.pid ?? 0,
    lines,
    stderr: () => stderr,
    ended,
    line(matches) {
      return new Promise((resolve, reject) => {
        const look = () => {
          const found = lines.find(matches);
          if (found) resolve(found);
        };
        waiting.add(look);
        look();
        void ended.then((how) => reject(new Error(`the program ended (${how}) without the line: ${stderr}`)));
      });
    },
  };
}

/** Starts the command line on a free port and resolves once it is ready. */
export async function startCli(
  argv: string[],
  options: SpawnOptions = {},
): Promise<RunningCli & { url: string; ready: LogLine }> {
  const cli = runCli(['--port', '0', '--log', 'json', ...argv], options);
  const ready = await cli.line((line) => line.event === 'ready');
  return { ...cli, url: String(ready.url), ready };
}
