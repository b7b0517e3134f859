import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';

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

    async create(): Promise<void> {
      await mkdir(directory, { recursive: true });
    },

    /**
     * Directory to run a command in. A conversation without a directory gets the session root and a
     * warning, so that a server's first `mkdir -p "<workspace>"` works and a deleted conversation
     * stays deleted.
     */
    async commandDirectory(): Promise<{ path: string; warning?: string }> {
      if (await isDirectory(directory)) return { path: directory };
      await mkdir(sessionRoot, { recursive: true });
      if (conversationId === undefined) return { path: sessionRoot };
      return {
        path: sessionRoot,
        warning: `conversation directory ${directory} does not exist; the command ran in ${sessionRoot}`,
      };
    },
  };
}

export type Workspace = ReturnType<typeof createWorkspace>;

async function isDirectory(name: string): Promise<boolean> {
  const stats = await stat(name).catch(() => undefined);
  return stats?.isDirectory() ?? false;
}
