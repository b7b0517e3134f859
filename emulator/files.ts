import { constants } from 'node:fs';
import { chmod, type FileHandle, link, lstat, open, readdir, readFile, rm, unlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { execa } from 'execa';
import { systemErrorCode } from './errors.js';

/**
 * Removes a tree that commands may have filled: nested deeper than a path can be long, or without the
 * rights to enter it. Never follows a link and never throws.
 *
 * @returns False when something is left.
 */
export async function removeTree(directory: string): Promise<boolean> {
  try {
    await rm(directory, { recursive: true, force: true });
    return true;
  } catch {
    await execa('chmod', ['-R', 'u+rwX', '--', directory], { reject: false });
    return !(await execa('rm', ['-rf', '--', directory], { reject: false })).failed;
  }
}

/**
 * Makes sure that each directory on the way from `base` down through `names` is a real one that its
 * owner may enter and move. A link in the place of a directory would lead the emulator, which runs
 * outside the walls, to files of the host. Only for trees in which nothing runs any more.
 *
 * @returns False when one of them is missing or not a directory.
 */
export async function unlockDirectories(base: string, names: readonly string[]): Promise<boolean> {
  let directory = base;
  for (const name of ['.', ...names]) {
    directory = path.join(directory, name);
    const stats = await lstat(directory).catch(() => undefined);
    if (!stats?.isDirectory()) return false;
    if ((stats.mode & OWNER_RIGHTS) !== OWNER_RIGHTS) await chmod(directory, (stats.mode & MODE_BITS) | OWNER_RIGHTS);
  }
  return true;
}

const OWNER_RIGHTS = 0o700;
const MODE_BITS = 0o7777;

/**
 * Names of the directories in `base` + `names`, while commands may be at work there: every step is made
 * from an open descriptor and refuses links, so that swapping a directory for one changes nothing.
 * Empty when the way leads through a link or is not there.
 */
export async function listDirectoriesNoFollow(base: string, names: readonly string[]): Promise<string[]> {
  const opened: FileHandle[] = [];
  try {
    let way = base;
    for (const name of ['.', ...names]) {
      const handle = await open(
        path.join(way, name),
        constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW,
      );
      opened.push(handle);
      way = `/proc/self/fd/${handle.fd}`;
    }
    const entries = await readdir(`${way}/`, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  } catch {
    return [];
  } finally {
    await Promise.all(opened.map((handle) => handle.close()));
  }
}

/**
 * The content of a file that is made once and kept. It appears whole or not at all, whatever happens
 * while it is made, and of several makers one wins.
 *
 * @throws Error that names the file when it is there but empty.
 */
export async function readOrMake(file: string, make: () => string): Promise<string> {
  const draft = `${file}.${process.pid}`;
  await writeFile(draft, make(), { mode: 0o600 });
  await link(draft, file).catch((error) => {
    if (systemErrorCode(error) !== 'EEXIST') throw error;
  });
  await unlink(draft);
  const content = await readFile(file, 'utf8');
  if (content === '') throw new Error(`${file} is empty; delete it, and a new one is made at the next start`);
  return content;
}
