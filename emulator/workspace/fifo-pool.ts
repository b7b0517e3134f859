import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, constants, existsSync, fstatSync, openSync, rmSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

/** Both ends of one pipe; whoever takes it closes them. */
export type Pipe = { readFd: number; writeFd: number };

/**
 * Real pipes for the output of commands.
 *
 * Node's own "pipes" are sockets, and a socket cannot be opened again by name: `echo > /dev/stderr`
 * and `tee /dev/stderr` fail on it. Node cannot make a pipe, so FIFOs are made in batches by one
 * `mkfifo`, opened at both ends and unlinked before the command sees them.
 *
 * @param directory Private directory for the FIFOs.
 */
export function createFifoPool(directory: string, batchSize = 64) {
  let ready: string[] = [];
  let refilling: Promise<void> | undefined;

  async function refill(): Promise<void> {
    // Commands can write here too: a name that could be guessed could be taken.
    const batch = Array.from({ length: batchSize }, () =>
      path.join(directory, `fifo-${randomBytes(8).toString('hex')}`),
    );
    // The PATH of commands begins in their home, where any program may call itself mkfifo.
    await runFile('mkfifo', ['-m', '600', ...batch], { env: { PATH: '/usr/bin:/bin' } });
    ready = ready.concat(batch);
  }

  function refillOnce(): Promise<void> {
    refilling ??= refill().finally(() => {
      refilling = undefined;
    });
    return refilling;
  }

  async function nextName(): Promise<string> {
    for (;;) {
      const name = ready.shift();
      const refilled = ready.length < batchSize / 4 ? refillOnce() : undefined;
      refilled?.catch(() => {}); // whoever finds the pool empty learns of it
      if (name !== undefined) return name;
      await refilled;
    }
  }

  return {
    /** Makes the first batch, so that the first command need not wait for it. */
    fill: refillOnce,

    async take(): Promise<Pipe> {
      for (let attempt = 1; ; attempt++) {
        const name = await nextName();
        try {
          return openBothEnds(name);
        } catch (error) {
          // A command may have removed what lies in the directory; the rest of the batch is as suspect.
          ready = [];
          if (attempt === 3) throw error;
        }
      }
    },
  };
}

// Not execa, which would make up a third of the time in which an instance starts.
const runFile = promisify(execFile);

export type FifoPool = ReturnType<typeof createFifoPool>;

function openBothEnds(name: string): Pipe {
  // The reading end first and without blocking: the writing end then opens at once and stays blocking,
  // which is what programs expect of their standard output.
  const readFd = openSync(name, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  try {
    if (!fstatSync(readFd).isFIFO()) throw new Error(`${name} is not a FIFO any more`);
    // By descriptor where that is possible: under its name a command could have put another FIFO by now,
    // and opening that one would wait for a reader for ever.
    const sameFifo = existsSync('/proc/self/fd') ? `/proc/self/fd/${readFd}` : name;
    const writeFd = openSync(sameFifo, constants.O_WRONLY);
    rmSync(name, { force: true });
    return { readFd, writeFd };
  } catch (error) {
    closeSync(readFd);
    throw error;
  }
}
