import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { Mode } from './emulator.js';

export const PROJECT_ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const MAIN = path.join(PROJECT_ROOT, 'dist/emulator/main.js');

/** One line of the JSON log. */
export type LogLine = Record<string, unknown> & { event?: string; msg?: string };

export type RunningCli = {
  child: ChildProcess;
  pid: number;
  /** Everything on standard output so far that was JSON. */
  lines: LogLine[];
  /** Everything on both outputs so far. */
  output(): string;
  stderr(): string;
  /** Resolves with the first line, also an earlier one, that matches; rejects when the program ends before. */
  line(matches: (line: LogLine) => boolean): Promise<LogLine>;
  /** Resolves with the exit code, or the signal's name. */
  ended: Promise<number | NodeJS.Signals>;
};

type SpawnOptions = {
  env?: NodeJS.ProcessEnv;
  /** Program and first arguments; this Node and the built command line by default. */
  program?: [string, ...string[]];
  /** Redirections in bash's syntax, made before the program starts: descriptors that it inherits. */
  redirections?: string;
};

/**
 * Starts the command line as a user does. What still runs when the test is over is stopped.
 *
 * @param argv Arguments of `scf-sandbox`.
 */
export function runCli(
  argv: string[],
  { env = process.env, program = [process.execPath, MAIN], redirections = '' }: SpawnOptions = {},
): RunningCli {
  const child = spawn('/bin/bash', ['-c', `exec "$@" ${redirections}`, 'bash', ...program, ...argv], {
    cwd: PROJECT_ROOT,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: LogLine[] = [];
  const waiting = new Set<() => void>();
  let pending = '';
  let stderr = '';
  let output = '';
  child.stderr?.on('data', (chunk) => {
    stderr += chunk;
    output += chunk;
  });
  child.stdout?.on('data', (chunk) => {
    pending += chunk;
    output += chunk;
    const complete = pending.split('\n');
    pending = complete.pop() ?? '';
    for (const line of complete) if (line.startsWith('{')) lines.push(JSON.parse(line));
    for (const look of waiting) look();
  });
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals);
  onTestFinished(async () => {
    const force = setTimeout(() => child.kill('SIGKILL'), 15_000);
    child.kill('SIGTERM');
    await ended;
    clearTimeout(force);
  });

  return {
    child,
    pid: child.pid ?? 0,
    lines,
    output: () => output,
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

/** Arguments for an emulator of one test: nothing kept, the mode asked for. */
export function argvFor(mode: Mode): string[] {
  return ['--ephemeral', '--isolation', mode === 'none' ? 'none' : 'require'];
}
