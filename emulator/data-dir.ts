import { link, mkdir, mkdtemp, readFile, realpath, rename, rm, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { systemErrorCode } from './errors.js';
import { isRunning, readProcessStat, sendSignal } from './processes.js';

/** The directory that this run of the emulator owns, and its short-lived companion. */
export type DataDir = {
  path: string;
  /** Short path for sockets and what lives only as long as this run. */
  runtimeDir: string;
  /** Removes the companion and gives the directory back; an ephemeral one is removed. */
  release(): Promise<void>;
};

const RUNTIME_PREFIX = 'scf-';
const LOCK_FILE = 'lock.json';
const lockSchema = z.object({ pid: z.number().int(), startTime: z.string(), runtimeDir: z.string() });
type Lock = z.infer<typeof lockSchema>;

/**
 * Takes a data directory for this process alone.
 *
 * @throws Error that names the process which has it already.
 */
export async function openDataDir(directory: string, ephemeral: boolean): Promise<DataDir> {
  const owned = ephemeral ? await mkdtemp(path.join(await realpath(tmpdir()), 'scf-data-')) : directory;
  await mkdir(owned, { recursive: true, mode: 0o700 });
  const runtimeDir = await mkdtemp(path.join(await realpath(tmpdir()), RUNTIME_PREFIX));
  try {
    await takeLock(path.join(owned, LOCK_FILE), { pid: process.pid, startTime: startTimeOf(process.pid), runtimeDir });
  } catch (error) {
    await rm(runtimeDir, { recursive: true, force: true });
    throw error;
  }
  return {
    path: owned,
    runtimeDir,
    async release() {
      await rm(runtimeDir, { recursive: true, force: true });
      if (ephemeral) await rm(owned, { recursive: true, force: true });
      else await rm(path.join(owned, LOCK_FILE), { force: true });
    },
  };
}

async function takeLock(file: string, lock: Lock): Promise<void> {
  const mine = `${file}.${process.pid}`;
  await writeFile(mine, JSON.stringify(lock), { mode: 0o600 });
  try {
    for (let attempt = 1; attempt <= 3; attempt++) {
      // A hard link appears with its whole content or not at all, and only one can be made.
      if (await makeLink(mine, file)) return;
      const holder = await readLock(file);
      if (holder && isHolderRunning(holder)) {
        throw new Error(
          `The data directory ${path.dirname(file)} is in use by process ${holder.pid}; stop it or choose another with --data-dir`,
        );
      }
      await dropStaleLock(file, holder);
    }
    throw new Error(
      `The data directory ${path.dirname(file)} is being taken by another emulator; choose another with --data-dir`,
    );
  } finally {
    await unlink(mine);
  }
}

async function makeLink(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if (systemErrorCode(error) === 'EEXIST') return false;
    throw error;
  }
}

/** What a killed emulator left: its lock and its runtime directory. */
async function dropStaleLock(file: string, holder: Lock | undefined): Promise<void> {
  const aside = `${file}.stale.${process.pid}`;
  await rename(file, aside).catch(() => {});
  await rm(aside, { force: true });
  if (
    holder &&
    path.dirname(holder.runtimeDir) === (await realpath(tmpdir())) &&
    path.basename(holder.runtimeDir).startsWith(RUNTIME_PREFIX)
  ) {
    await rm(holder.runtimeDir, { recursive: true, force: true });
  }
}

async function readLock(file: string): Promise<Lock | undefined> {
  try {
    return lockSchema.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch {
    return undefined;
  }
}

/** A pid alone may have been given to another program since. */
function isHolderRunning({ pid, startTime }: Lock): boolean {
  if (pid <= 1) return false;
  if (startTime === '') return sendSignal(pid, 0);
  return isRunning(pid) && startTimeOf(pid) === startTime;
}

/** Empty where there is no `/proc`. */
function startTimeOf(pid: number): string {
  return readProcessStat(pid)?.startTime ?? '';
}
