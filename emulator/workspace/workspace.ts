import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { SandboxError, systemErrorCode } from '../errors.js';

/**
 * Where one conversation works: `<session root>/<conversationId>`, or the session root itself for
 * callers that name no conversation (the mode before the redesign, where session and conversation
 * were one).
 */
export function createWorkspace(sessionRoot: string, conversationId: string | undefined) {
  const directory = conversationId === undefined ? sessionRoot : path.join(sessionRoot, conversationId);

  return {
    sessionRoot,
    conversationId,
    /** Absolute path of the conversation's directory; it need not exist yet. */
    directory,

    /** @throws SandboxError `WORKSPACE_UNUSABLE` when something else is in its place or the disk is full. */
    async create(): Promise<void> {
      await makeDirectory(directory);
    },

    /**
     * Directory to run a command in. A conversation without a directory gets the session root and a
     * warning, so that a server's first `mkdir -p "<workspace>"` works and a deleted conversation
     * stays deleted.
     */
    async commandDirectory(): Promise<{ path: string; warning?: string }> {
      if (await isDirectory(directory)) return { path: directory };
      await makeDirectory(sessionRoot);
      if (conversationId === undefined) return { path: sessionRoot };
      return {
        path: sessionRoot,
        warning: `conversation directory ${directory} does not exist; the command ran in ${sessionRoot}`,
      };
    },
  };
}

export type Workspace = ReturnType<typeof createWorkspace>;

async function makeDirectory(name: string): Promise<void> {
  try {
    await mkdir(name, { recursive: true });
  } catch (error) {
    const reason = WHY[systemErrorCode(error) ?? ''] ?? (error instanceof Error ? error.message : String(error));
    throw new SandboxError('WORKSPACE_UNUSABLE', `The directory ${name} could not be made: ${reason}`, {
      cause: error,
    });
  }
}

const WHY: Record<string, string> = {
  EEXIST: 'a file is in its place; remove it',
  ENOTDIR: 'a file is in the place of a directory above it; remove it',
  ENOSPC: 'no space is left on the disk',
  EACCES: 'a directory above it may not be written',
  ELOOP: 'a link in its place leads nowhere; remove it',
};

async function isDirectory(name: string): Promise<boolean> {
  const stats = await stat(name).catch(() => undefined);
  return stats?.isDirectory() ?? false;
}
