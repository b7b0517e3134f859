import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import { isRunning } from '../../emulator/processes.js';
import { eventually, type Mode, makeTempDir } from './emulator.js';

export type Cli = {
  url: string;
  /** Pid of the emulator itself. */
  pid: number;
  /** Where the emulator keeps everything; gone after the test. */
  directory: string;
  /** Ends the emulator as the operating system does when it runs out of memory. */
  killHard(): Promise<void>;
};

export type CliOptions = {
  mode: Mode;
  args?: string[];
  env?: Record<string, string>;
  /** Node that runs the emulator; this one by default. */
  node?: string;
  /** Redirections in bash's syntax, made before the emulator starts: descriptors that it inherits. */
  redirections?: string;
};

/** Starts the command line as a process of its own for the test at hand, and waits until it is ready. */
export async function startCli(options: CliOptions): Promise<Cli> {
  const directory = await makeTempDir();
  const child = spawnCli(options, directory);
  const { pid } = child;
  if (pid === undefined) throw new Error('the emulator did not start');
  onTestFinished(async () => {
    child.kill('SIGTERM');
    await eventually('the emulator has stopped', () => !isRunning(pid));
    await rm(directory, { recursive: true, force: true });
  });
  return {
    url: await readyUrl(child),
    pid,
    directory,
    async killHard() {
      const exit = once(child, 'exit');
      child.kill('SIGKILL');
      await exit;
    },
  };
}

function spawnCli({ mode, args = [], env, node, redirections = '' }: CliOptions, directory: string): ChildProcess {
  const isolation = mode === 'none' ? 'none' : 'require';
  const options = ['--port', '0', '--ephemeral', '--log', 'json', '--isolation', isolation, ...args];
  const program = [node ?? process.execPath, 'dist/emulator/main.js', ...options];
  return spawn('/bin/bash', ['-c', `exec "$@" ${redirections}`, 'bash', ...program], {
    env: { ...process.env, TMPDIR: directory, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

async function readyUrl(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error('the emulator has no standard output');
  const lines = createInterface({ input: child.stdout });
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the emulator ended with ${code} before it was ready`)));
    lines.on('line', (line) => {
      const { event, url } = JSON.parse(line) as { event?: string; url: string };
      if (event === 'ready') resolve(url);
    });
  });
}

/** Pids on the host of the running processes that have `argument` among their arguments. */
export function pidsWithArgument(argument: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => isRunning(pid) && argumentsOf(pid).includes(argument));
}

function argumentsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return []; // it has ended
  }
}
