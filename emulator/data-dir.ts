import {
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  unlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { systemErrorCode } from './errors.js';
import { removeTree } from './files.js';
import { endLeftovers } from './isolation/leftovers.js';
import { isSameRunning, readProcessStat, sendSignal } from './processes.js';

/** The directory that this run of the emulator owns, and its short-lived companion. */
export type DataDir = {
  path: string;
  /** Short path for sockets and what lives only as long as this run. */
  runtimeDir: string;
  /** Removes the companion, and with it an ephemeral data directory, and gives the other kind free. */
  release(): Promise<void>;
};

const RUNTIME_PREFIX = 'scf-sandbox-';
const OWNER_FILE = 'owner.json';
const LOCK_FILE = 'lock.json';
const ownerSchema = z.object({ pid: z.number().int(), startTime: z.string() });
/** The process that a directory belongs to. A pid alone may have been given to another program since. */
type Owner = z.infer<typeof ownerSchema>;

/**
 * Takes a data directory for this process alone.
 *
 * @param directory Ignored for an ephemeral one, which lies in the runtime directory.
 * @throws Error that names the process which has it already.
 */
export async function openDataDir(directory: string, ephemeral: boolean): Promise<DataDir> {
  const temporary = await realpath(tmpdir());
  await removeAbandoned(temporary);
  const runtimeDir = await mkdtemp(path.join(temporary, RUNTIME_PREFIX));
  try {
    await writeFile(path.join(runtimeDir, OWNER_FILE), JSON.stringify(self()));
    const owned = ephemeral ? path.join(runtimeDir, 'data') : directory;
    await mkdir(owned, { recursive: true, mode: 0o700 });
    const lock = path.join(owned, LOCK_FILE);
    await takeLock(lock);
    return {
      path: owned,
      runtimeDir,
      async release() {
        await rm(lock, { force: true });
        await removeTree(runtimeDir);
      },
    };
  } catch (error) {
    await removeTree(runtimeDir);
    throw error;
  }
}

/** Removes what emulators of this user that were killed left in the directory for temporary files. */
async function removeAbandoned(temporary: string): Promise<void> {
  for (const name of await readdir(temporary)) {
    const directory = path.join(temporary, name);
    if (!name.startsWith(RUNTIME_PREFIX) || (await stat(directory).catch(() => undefined))?.uid !== process.getuid?.())
      continue;
    const owner = await readOwner(path.join(directory, OWNER_FILE));
    if (!owner || isOwnerRunning(owner)) continue;
    for (const instanceId of await readdir(path.join(directory, 'data', 'instances')).catch(() => []))
      await endLeftovers(instanceId);
    await removeTree(directory);
  }
}

async function takeLock(file: string): Promise<void> {
  const mine = `${file}.${process.pid}`;
  await writeFile(mine, JSON.stringify(self()), { mode: 0o600 });
  try {
    for (let attempt = 1; attempt <= 3; attempt++) {
      // A hard link appears with its whole content or not at all, and only one can be made.
      if (await makeLink(mine, file)) return;
      const holder = await readOwner(file);
      if (holder && isOwnerRunning(holder)) {
        throw new Error(
          `The data directory ${path.dirname(file)} is in use by process ${holder.pid}; stop it or choose another with --data-dir`,
        );
      }
      await dropStaleLock(file);
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

/** Takes a stale lock away; one that another emulator has just made in its place is put back. */
async function dropStaleLock(file: string): Promise<void> {
  const aside = `${file}.stale.${process.pid}`;
  await rename(file, aside).catch(() => {}); // somebody else was faster
  const owner = await readOwner(aside);
  if (owner && isOwnerRunning(owner)) await makeLink(aside, file);
  await rm(aside, { force: true });
}

function self(): Owner {
  return { pid: process.pid, startTime: startTimeOf(process.pid) };
}

async function readOwner(file: string): Promise<Owner | undefined> {
  try {
    return ownerSchema.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch {
    return undefined;
  }
}

function isOwnerRunning({ pid, startTime }: Owner): boolean {
  if (pid <= 1) return false;
  return startTime === '' ? sendSignal(pid, 0) : isSameRunning({ pid, startTime });
}

/** Empty where there is no `/proc`. */
function startTimeOf(pid: number): string {
  return readProcessStat(pid)?.startTime ?? '';
}
