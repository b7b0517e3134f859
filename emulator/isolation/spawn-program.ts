import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';

/** A program that was started, and its end, which is listened for from the first moment on. */
export type SpawnedProgram = { child: ChildProcess; exited: Promise<void> };

/**
 * Starts a program.
 *
 * @throws Error when it could not be started. Node tells why later; by then nobody could answer with it.
 */
export function spawnProgram(file: string, args: string[], options: SpawnOptions): SpawnedProgram {
  const child = spawn(file, args, options);
  const exited = once(child, 'exit').then(
    () => {},
    () => {}, // it was not started
  );
  if (child.pid !== undefined) return { child, exited };
  throw new Error(`${file} could not be started: it is gone, or too many files or processes are open`);
}
