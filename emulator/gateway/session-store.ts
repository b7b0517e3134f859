import { lstat, mkdir, readdir, readFile, rename, rmdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { DEFAULT_FUNCTION_NAME, functionNameSchema, sessionIdSchema } from '../../client/wire/ids.js';
import { systemErrorCode } from '../errors.js';
import { removeTree, unlockDirectories } from '../files.js';
import type { IsolationMode } from '../isolation/launcher.js';
import { endLeftovers } from '../isolation/leftovers.js';
import type { Log } from '../log.js';
import { type SessionKey, toKeyString } from './session-key.js';

/** Where all workspaces are, as commands see them. Evidence: recorded (a real run). */
const WORKSPACE_ROOT = '/tmp/workspace';

/** The directories of one instance, and of the session that it holds. */
export type InstancePlace = {
  directory: string;
  tmp: string;
  home: string;
  /** Session root on the host. */
  hostWorkspace: string;
  /** The directory above the session root that commands cannot put a link in the place of. */
  base: string;
  /** Session root as the instance sees it. */
  sessionRoot: string;
};

/**
 * Keeps the files of sessions.
 *
 * Namespace mode: `<dataDir>/instances/<id>/` is what an instance sees. A session's workspace and home
 * are renamed in when the instance gets the session and back to `<dataDir>/sessions/` when it ends, so
 * at any moment they are at exactly one place. Where a command has moved the workspace away, the whole
 * instance goes to `<dataDir>/trash/`.
 *
 * Mode none: the workspace is really `/tmp/workspace/<session>`. What is there already is adopted and
 * never moved or deleted.
 */
export function createSessionStore(dataDir: string, mode: IsolationMode, log: Log) {
  const instances = path.join(dataDir, 'instances');
  const sessions = path.join(dataDir, 'sessions');
  const trash = path.join(dataDir, 'trash');
  const made = new Set<string>();
  /** Sessions whose files an earlier run left where they cannot be taken from. */
  const stranded = new Map<string, string>();

  const sessionDirectory = (key: SessionKey) => path.join(sessions, key.functionName, key.sessionId);

  async function attachIsolated(key: SessionKey, directory: string): Promise<InstancePlace> {
    const tmp = path.join(directory, 'tmp');
    const homes = path.join(directory, 'home');
    const hostWorkspace = path.join(tmp, 'workspace', key.sessionId);
    await mkdir(path.dirname(hostWorkspace), { recursive: true });
    await mkdir(homes, { recursive: true });
    // Written before anything is moved: after a crash it says whose files these are.
    await writeFile(path.join(directory, OWNER_FILE), JSON.stringify(key), { flush: true });
    await mkdir(sessionDirectory(key), { recursive: true });
    try {
      await moveOrMake(path.join(sessionDirectory(key), 'workspace'), hostWorkspace);
      await moveOrMake(path.join(sessionDirectory(key), 'home'), path.join(homes, HOME_NAME));
    } catch (error) {
      await detach(directory);
      throw error;
    }
    return { directory, tmp, home: homes, hostWorkspace, base: tmp, sessionRoot: `${WORKSPACE_ROOT}/${key.sessionId}` };
  }

  async function attachPlain(key: SessionKey, directory: string): Promise<InstancePlace> {
    const hostWorkspace = plainWorkspace(key);
    for (const name of [WORKSPACE_ROOT, hostWorkspace]) if (await makeOrAdopt(name)) made.add(name);
    const home = path.join(sessionDirectory(key), 'home');
    const tmp = path.join(directory, 'tmp');
    await Promise.all([mkdir(home, { recursive: true }), mkdir(tmp, { recursive: true })]);
    return { directory, tmp, home, hostWorkspace, base: path.dirname(WORKSPACE_ROOT), sessionRoot: hostWorkspace };
  }

  async function bringBack(directory: string, key: SessionKey): Promise<void> {
    const stored = sessionDirectory(key);
    await mkdir(stored, { recursive: true });
    const tmp = path.join(directory, 'tmp');
    await bringBackOne(tmp, ['workspace', key.sessionId], path.join(stored, 'workspace'));
    await bringBackOne(path.join(directory, 'home'), [HOME_NAME], path.join(stored, 'home'));
    const isBack = await Promise.all(['workspace', 'home'].map((name) => isDirectory(path.join(stored, name))));
    // Where a command moved or replaced one of them, what it made of it is still somewhere in here.
    if (isBack.includes(false)) await moveToTrash(directory);
  }

  async function moveToTrash(directory: string): Promise<void> {
    await mkdir(trash, { recursive: true });
    await rename(directory, path.join(trash, path.basename(directory)));
  }

  async function detach(directory: string): Promise<void> {
    const owner = await readOwner(directory);
    if (owner) await bringBack(directory, owner);
    else if (await holdsWorkspaces(directory)) {
      log.warn({ directory, trash }, 'files of an unknown session were moved to the trash');
      await moveToTrash(directory);
    }
    if (!(await removeTree(directory))) log.warn({ directory }, 'a directory could not be removed');
  }

  return {
    /** Gives an instance its session's files. Not to be called for one session twice at a time. */
    async attach(key: SessionKey, instanceId: string): Promise<InstancePlace> {
      const directory = path.join(instances, instanceId);
      const elsewhere = stranded.get(toKeyString(key));
      if (elsewhere !== undefined)
        throw new Error(`its files are still in ${elsewhere}; bring them to ${sessionDirectory(key)}`);
      return mode === 'namespace' ? attachIsolated(key, directory) : attachPlain(key, directory);
    },

    /** Takes the files back once no process of the instance is left. */
    detach: (place: InstancePlace) => detach(place.directory),

    /** Brings back what an emulator that was killed left in its instances. */
    async recover(): Promise<void> {
      for (const name of await readdir(instances).catch(() => [])) {
        const directory = path.join(instances, name);
        await endLeftovers(name);
        await detach(directory).catch(async (error) => {
          log.error({ directory, err: error }, 'the files of a session could not be brought back; it will not start');
          const owner = await readOwner(directory);
          if (owner) stranded.set(toKeyString(owner), directory);
        });
      }
    },

    /** Removes what this run made outside the data directory. */
    async removeMade(): Promise<void> {
      for (const name of [...made].reverse()) {
        if (name === WORKSPACE_ROOT) await rmdir(name).catch(() => {});
        else await removeTree(name);
      }
    },
  };
}

export type SessionStore = ReturnType<typeof createSessionStore>;

const OWNER_FILE = 'session.json';
const HOME_NAME = 'sandbox';
const ownerSchema = z.object({ functionName: functionNameSchema, sessionId: sessionIdSchema });

/**
 * The default function has the paths of the real container. Another function's session of the same id
 * stands beside it under a name that no session id can have.
 */
function plainWorkspace({ functionName, sessionId }: SessionKey): string {
  const name = functionName === DEFAULT_FUNCTION_NAME ? sessionId : `${sessionId}@${functionName}`;
  return path.join(WORKSPACE_ROOT, name);
}

async function readOwner(directory: string): Promise<SessionKey | undefined> {
  try {
    return ownerSchema.parse(JSON.parse(await readFile(path.join(directory, OWNER_FILE), 'utf8')));
  } catch {
    return undefined;
  }
}

/** Moves a directory back, unless a command has put something else in its place. */
async function bringBackOne(base: string, names: string[], to: string): Promise<void> {
  if (!(await unlockDirectories(base, names))) return;
  await moveAside(to);
  await rename(path.join(base, ...names), to);
}

/** False in an instance that never had files, and in mode none, whose workspaces are elsewhere. */
async function holdsWorkspaces(directory: string): Promise<boolean> {
  return (await readdir(path.join(directory, 'tmp', 'workspace')).catch(() => [])).length > 0;
}

async function moveOrMake(from: string, to: string): Promise<void> {
  if (await isDirectory(from)) await rename(from, to);
  else await mkdir(to);
}

/** Two places claim the same session only after outside interference; neither copy is thrown away. */
async function moveAside(name: string): Promise<void> {
  if (await isDirectory(name)) await rename(name, `${name}.${Date.now()}`);
}

/** @returns True when the directory was made, false when it was there. */
async function makeOrAdopt(name: string): Promise<boolean> {
  try {
    await mkdir(name);
    return true;
  } catch (error) {
    // Another emulator of this machine has just removed the root, which was empty.
    if (systemErrorCode(error) === 'ENOENT') {
      await makeOrAdopt(path.dirname(name));
      return makeOrAdopt(name);
    }
    if (systemErrorCode(error) !== 'EEXIST') throw error;
    if (await isDirectory(name)) return false;
    throw new Error(`${name} exists and is not a directory; remove it or use namespace isolation`);
  }
}

/** A link to a directory is not one: what an agent put in its place must not lead the host astray. */
async function isDirectory(name: string): Promise<boolean> {
  const stats = await lstat(name).catch(() => undefined);
  return stats?.isDirectory() ?? false;
}
