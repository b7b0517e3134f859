import { readdir } from 'node:fs/promises';
import path from 'node:path';
import type { HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import { streamSSE } from 'hono/streaming';
import { conversationIdSchema } from '../../client/wire/ids.js';
import { isLoopback } from '../config.js';
import { SandboxError } from '../errors.js';
import type { Events, FileEvent } from '../events.js';
import { allowOnly } from '../method-not-allowed.js';
import { descendantsOf, readMemoryBytes, snapshotProcesses } from '../processes.js';
import type { FileWatch } from './file-watch.js';

/** One session as the control plane sees it. */
export type SessionView = {
  functionName: string;
  sessionId: string;
  /** Conversations that requests named. */
  conversations: Iterable<string>;
  generations: number;
  instance?: { id: string; pid: number | undefined; hostWorkspace: string; sessionRoot: string };
};

export type ControlDeps = {
  /** Facts that do not change while the emulator runs. */
  facts(): Record<string, unknown>;
  sessions(): SessionView[];
  events: Events;
  files: FileWatch;
  /** Aborted when the emulator stops; ends the event streams. */
  closing: AbortSignal;
};

/** `/_emulator`: what a developer asks of the emulator itself. Loopback only. Evidence: emulator-only. */
export function createControlApp(deps: ControlDeps): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>();

  app.use(async (c, next) => {
    if (!isLoopback(c.env.incoming.socket.remoteAddress ?? '')) {
      throw new SandboxError('ACCESS_DENIED', 'The control plane answers callers on this machine only');
    }
    await next();
  });

  app.get('/state', async (c) => {
    const processes = snapshotProcesses();
    const sessions = await Promise.all(deps.sessions().map((session) => describeSession(session, processes)));
    return c.json({ ...deps.facts(), sessions });
  });

  app.get('/events', (c) =>
    streamSSE(c, async (stream) => {
      const send = (event: string) => (data: unknown) =>
        void stream.writeSSE({ event, data: JSON.stringify(data) }).catch(() => {});
      const onRequest = send('request');
      const onSession = send('session');
      const onFile: (event: FileEvent) => void = send('file');
      deps.events.on('request', onRequest).on('session', onSession);
      const unwatch = deps.files.subscribe(onFile);
      await stream.writeSSE({ event: 'hello', data: JSON.stringify(deps.facts()) });
      await new Promise<void>((resolve) => {
        stream.onAbort(resolve);
        deps.closing.addEventListener('abort', () => resolve(), { once: true });
      });
      deps.events.off('request', onRequest).off('session', onSession);
      unwatch();
    }),
  );

  app.all('/state', allowOnly('GET')).all('/events', allowOnly('GET'));
  return app;
}

async function describeSession(session: SessionView, processes: ReturnType<typeof snapshotProcesses>) {
  const { functionName, sessionId, generations, instance } = session;
  if (!instance)
    return {
      functionName,
      sessionId,
      state: 'stopped',
      generations,
      instance: null,
      conversations: [...session.conversations].map((id) => ({ conversationId: id })),
    };
  const pids = instance.pid === undefined ? [] : [instance.pid, ...descendantsOf(instance.pid, processes)];
  const memoryBytes = pids.reduce((sum, pid) => sum + readMemoryBytes(pid), 0);
  const names = new Set([...session.conversations, ...(await listConversations(instance.hostWorkspace))]);
  return {
    functionName,
    sessionId,
    state: 'active',
    generations,
    instance: { id: instance.id, pid: instance.pid, processes: pids.length, memoryBytes },
    hostPath: instance.hostWorkspace,
    conversations: [...names].sort().map((conversationId) => ({
      conversationId,
      workspace: `${instance.sessionRoot}/${conversationId}`,
      hostPath: path.join(instance.hostWorkspace, conversationId),
    })),
  };
}

async function listConversations(hostWorkspace: string): Promise<string[]> {
  const entries = await readdir(hostWorkspace, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() && conversationIdSchema.safeParse(entry.name).success)
    .map((entry) => entry.name);
}
