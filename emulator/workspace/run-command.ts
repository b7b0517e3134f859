import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, constants, openSync, readSync, rmSync, writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { constants as systemConstants } from 'node:os';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { systemErrorCode } from '../errors.js';
import { CALL_VARIABLE, type Call, isCallAlive, terminateCall } from './call-processes.js';
import type { FifoPool } from './fifo-pool.js';
import { createOutputWindow, type OutputWindow } from './output-window.js';

export type CommandRequest = {
  command: string;
  cwd: string;
  env: Record<string, string>;
  /** The caller's own deadline; the command is ended a little before it. */
  timeoutMs: number;
  outputLimitBytes: number;
  /** Aborting it ends the command. */
  signal?: AbortSignal;
};

export type CommandOutcome = {
  /** 128 + n when a signal ended the command; null when it timed out or was cancelled. */
  exitCode: number | null;
  /** Standard output and standard error in the order in which they were written. */
  output: string;
  truncated: boolean;
  omittedBytes: number;
  timedOut: boolean;
  cancelled: boolean;
  /** True when processes that the command started live on. */
  background: boolean;
};

/** Kernel limit of one argument is 128 KiB; a longer command is handed over in a file. */
const LONGEST_ARGUMENT_BYTES = 100_000;
/** How long output is awaited after the command's own exit while somebody else holds the pipe open. */
const BACKGROUND_GRACE_MS = 100;

/**
 * Runs commands as `bash -c` does: a fresh cold shell per call, no start-up files, standard input
 * empty, standard output and error one pipe. A call is over when its shell has exited and the output
 * has ended, or 100 ms after the exit when a child in the background keeps the pipe; such a child
 * lives on and its later output is read and dropped, so that it never blocks or dies of SIGPIPE.
 *
 * @param scratchDirectory Private directory for commands that are too long for an argument.
 * @param callPrefix Begins the marker of every call; the emulator finds leftovers of an instance by it.
 */
export function createCommandRunner(fifos: FifoPool, scratchDirectory: string, callPrefix: string) {
  let calls = 0;
  const running = new Set<Call>();

  async function run(request: CommandRequest): Promise<CommandOutcome> {
    const callId = `${callPrefix}.${++calls}`;
    const pipe = await fifos.take();
    const output = readOutput(pipe.readFd, request.outputLimitBytes);
    const startedAt = performance.now();
    try {
      const child = startShell(request, callId, pipe.writeFd, scratchDirectory);
      const exit = exitOf(child);
      if (child.pid === undefined) return await exit.then(() => Promise.reject(new Error('bash did not start')));
      const call: Call = { groupId: child.pid, callId, startedAt };
      running.add(call);
      return await supervise(request, call, exit, output).finally(() => running.delete(call));
    } finally {
      output.drain();
    }
  }

  return {
    run,
    /** Ends what still runs and resolves when it is gone. Children left in the background are not touched. */
    async terminateAll(): Promise<void> {
      await Promise.all([...running].map((call) => terminateCall(call, 0)));
    },
  };
}

export type CommandRunner = ReturnType<typeof createCommandRunner>;

async function supervise(
  request: CommandRequest,
  call: Call,
  exit: Promise<number>,
  output: CommandOutput,
): Promise<CommandOutcome> {
  const { actAfterMs, graceMs } = deadlinesFor(request.timeoutMs);
  const watch = watchForStop(actAfterMs, request.signal);
  try {
    const first = await Promise.race([exit, watch.stopped]);
    const stopped = typeof first === 'string';
    if (stopped) await terminateCall(call, graceMs);
    await Promise.race([output.ended, delay(stopped ? graceMs : BACKGROUND_GRACE_MS)]);
    output.catchUp();
    const { text, truncated, omittedBytes } = output.window.read();
    return {
      exitCode: stopped ? null : first,
      output: text,
      truncated,
      omittedBytes,
      timedOut: first === 'timeout',
      cancelled: first === 'cancel',
      background: !stopped && isCallAlive(call),
    };
  } finally {
    watch.dispose();
  }
}

/**
 * When to act so that the answer, with what was printed until then, is there before the caller gives
 * up: one client aborts its request at exactly the timeout that it sends. TERM comes 10 % early (at
 * least 50 ms, at most 1 s), KILL at most 200 ms later and within half of that margin.
 */
export function deadlinesFor(timeoutMs: number): { actAfterMs: number; graceMs: number } {
  const marginMs = Math.min(Math.max(timeoutMs * 0.1, 50), 1_000, timeoutMs / 2);
  return { actAfterMs: timeoutMs - marginMs, graceMs: Math.min(200, marginMs / 2) };
}

function watchForStop(afterMs: number, signal: AbortSignal | undefined) {
  let stop: (reason: 'timeout' | 'cancel') => void = () => {};
  const stopped = new Promise<'timeout' | 'cancel'>((resolve) => {
    stop = resolve;
  });
  const timer = setTimeout(() => stop('timeout'), afterMs);
  const cancel = () => stop('cancel');
  if (signal?.aborted) cancel();
  signal?.addEventListener('abort', cancel);
  return {
    stopped,
    dispose() {
      clearTimeout(timer);
      signal?.removeEventListener('abort', cancel);
    },
  };
}

/** Closes `outputFd` in this process, so that the output ends with its last writer. */
function startShell(request: CommandRequest, callId: string, outputFd: number, scratchDirectory: string): ChildProcess {
  try {
    return spawnShell(request, callId, outputFd, scratchDirectory);
  } finally {
    closeSync(outputFd);
  }
}

function spawnShell(request: CommandRequest, callId: string, outputFd: number, scratchDirectory: string): ChildProcess {
  const env = { ...request.env, [CALL_VARIABLE]: callId };
  const options = { cwd: request.cwd, env, detached: true } as const;
  if (Buffer.byteLength(request.command) <= LONGEST_ARGUMENT_BYTES) {
    return spawn('/bin/bash', ['-c', request.command], { ...options, stdio: ['ignore', outputFd, outputFd] });
  }
  const commandFd = openUnlinked(scratchDirectory, request.command);
  try {
    // Words are expanded before redirections are made, so the command itself never sees descriptor 3.
    const load = 'eval "$(</dev/fd/3)" 3<&-';
    return spawn('/bin/bash', ['-c', load], { ...options, stdio: ['ignore', outputFd, outputFd, commandFd] });
  } finally {
    closeSync(commandFd);
  }
}

/** A file without a name: nothing is left of it when its last reader is gone, however that happens. */
function openUnlinked(directory: string, content: string): number {
  const name = path.join(directory, randomBytes(8).toString('hex')); // commands could take one that can be guessed
  writeFileSync(name, content, { flag: 'wx', mode: 0o600 });
  try {
    return openSync(name, constants.O_RDONLY | constants.O_NOFOLLOW);
  } finally {
    rmSync(name, { force: true });
  }
}

type CommandOutput = { window: OutputWindow; ended: Promise<void>; catchUp(): void; drain(): void };

/** Most that a pipe holds, unless root makes it hold more. */
const PIPE_CAPACITY_BYTES = 1024 * 1024;

function readOutput(readFd: number, limitBytes: number): CommandOutput {
  const window = createOutputWindow(limitBytes);
  const socket = new Socket({ fd: readFd, readable: true, writable: false });
  const keep = (chunk: Buffer) => window.push(chunk);
  let open = true; // after its end the descriptor is closed and its number may name another file
  socket.on('data', keep);
  socket.once('end', () => {
    open = false;
  });
  return {
    window,
    ended: finished(socket).catch(() => {}),
    /**
     * Takes what is in the pipe by now. In a busy instance the grace may be over before the loop comes
     * to read, and a command's own output would be lost.
     */
    catchUp() {
      if (open && !socket.destroyed) readAvailable(readFd, PIPE_CAPACITY_BYTES, keep);
    },
    /** Reads on without keeping anything, for as long as somebody writes. */
    drain() {
      socket.off('data', keep);
      socket.resume();
      socket.unref();
    },
  };
}

/** Reads without waiting; at most `limitBytes`, since somebody may write as fast as this reads. */
function readAvailable(fd: number, limitBytes: number, keep: (chunk: Buffer) => void): void {
  try {
    for (let total = 0; total < limitBytes; ) {
      const chunk = Buffer.alloc(65_536);
      const length = readSync(fd, chunk);
      if (length === 0) return;
      total += length;
      keep(chunk.subarray(0, length));
    }
  } catch (error) {
    if (systemErrorCode(error) !== 'EAGAIN') throw error;
  }
}

/** Resolves with the exit code as a shell reports it; rejects when the shell could not be started. */
async function exitOf(child: ChildProcess): Promise<number> {
  const [code, signal] = await once(child, 'exit');
  return code ?? 128 + (systemConstants.signals[signal as NodeJS.Signals] ?? 0);
}
