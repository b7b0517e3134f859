import { type ChildProcess, fork } from 'node:child_process';
import path from 'node:path';
import { z } from 'zod';
import type { FileEvent } from '../events.js';
import type { Log } from '../log.js';

/** A directory whose changes are reported, and the session that they belong to. */
export type WatchedRoot = { directory: string; functionName: string; sessionId: string };

const messageSchema = z.object({
  directory: z.string(),
  /** Empty once, when the watch on the directory itself is in place. */
  path: z.string(),
  change: z.enum(['ready', 'add', 'addDir', 'change', 'unlink', 'unlinkDir']),
});

/**
 * Reports file changes of all sessions while somebody listens. The watching is done in a process of its
 * own, since it costs memory that would slow every start of a command in this one.
 *
 * @param program Path of the watching program.
 * @param roots The directories to watch now; asked again whenever `refresh` is called.
 */
export function createFileWatch(program: string, roots: () => WatchedRoot[], log: Log) {
  const listeners = new Set<(event: FileEvent) => void>();
  const ready = new Set<string>();
  let watcher: ChildProcess | undefined;
  let watched = new Map<string, WatchedRoot>();

  function start(): ChildProcess {
    const child = fork(program, [], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: { PATH: process.env.PATH ?? '' },
    });
    child.on('message', (raw) => {
      const message = messageSchema.safeParse(raw);
      if (message.success) report(message.data);
    });
    child.once('exit', () => {
      if (watcher !== child) return;
      watcher = undefined;
      log.warn('the file watcher ended unexpectedly; file events stop until somebody listens anew');
    });
    return child;
  }

  function report({ directory, path: changed, change }: z.output<typeof messageSchema>): void {
    const root = watched.get(directory);
    if (!root) return;
    if (change === 'ready') ready.add(directory);
    for (const listener of listeners) listener(toEvent(root, changed, change));
  }

  function refresh(): void {
    if (!watcher) return;
    watched = new Map(roots().map((root) => [path.resolve(root.directory), root]));
    if (watcher.connected) watcher.send({ directories: [...watched.keys()] }, () => {});
  }

  function stop(): void {
    const child = watcher;
    watcher = undefined;
    ready.clear();
    child?.kill();
  }

  return {
    /** @returns A function that ends the subscription; with the last one the watcher ends. */
    subscribe(listener: (event: FileEvent) => void): () => void {
      listeners.add(listener);
      watcher ??= start();
      refresh();
      for (const root of watched.values())
        if (ready.has(path.resolve(root.directory))) listener(toEvent(root, '', 'ready'));
      return () => {
        listeners.delete(listener);
        if (listeners.size === 0) stop();
      };
    },

    /** To be called when sessions come or go. */
    refresh,

    close: stop,
  };
}

export type FileWatch = ReturnType<typeof createFileWatch>;

function toEvent({ functionName, sessionId }: WatchedRoot, changed: string, change: FileEvent['change']): FileEvent {
  return { functionName, sessionId, path: changed, change };
}
