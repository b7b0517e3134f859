import path from 'node:path';
import type { HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import { type SSEStreamingApi, streamSSE } from 'hono/streaming';
import { conversationIdSchema } from '../../client/wire/ids.js';
import { isLoopback } from '../config.js';
import { SandboxError } from '../errors.js';
import type { Events, FileEvent } from '../events.js';
import { listDirectoriesNoFollow } from '../files.js';
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
  instance?: { id: string; pid: number | undefined; base: string; hostWorkspace: string; sessionRoot: string };
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

  app.get('/events', (c) => {
    if (c.req.method === 'HEAD') return c.body(null, 200, { 'Content-Type': 'text/event-stream' });
    const { outgoing } = c.env;
    return streamSSE(c, async (stream) => {
      const send = createSender(stream);
      const onRequest = send('request');
      const onSession = send('session');
      const onFile: (event: FileEvent) => void = send('file');
      deps.events.on('request', onRequest).on('session', onSession);
      const unwatch = deps.files.subscribe(onFile);
      await stream.writeSSE({ event: 'hello', data: JSON.stringify(deps.facts()) });
      await new Promise<void>((resolve) => {
        if (outgoing.destroyed || deps.closing.aborted) return resolve();
        const end = () => {
          outgoing.off('close', end);
          deps.closing.removeEventListener('abort', end);
          resolve();
        };
        outgoing.once('close', end);
        deps.closing.addEventListener('abort', end);
      });
      deps.events.off('request', onRequest).off('session', onSession);
      unwatch();
    });
  });

  app.all('/state', allowOnly('GET')).all('/events', allowOnly('GET'));
  return app;
}

/** How many events wait for a listener that does not read before further ones are dropped and counted. */
const LONGEST_QUEUE = 1_000;

function createSender(stream: SSEStreamingApi): (event: string) => (data: unknown) => void {
  let queued = 0;
  let lost = 0;
  async function write(event: string, data: unknown): Promise<void> {
    queued++;
    await stream.writeSSE({ event, data: JSON.stringify(data) }).catch(() => {}); // the listener is gone
    queued--;
    if (queued > 0 || lost === 0) return;
    const count = lost;
    lost = 0;
    await write('lost', { count });
  }
  return (event) => (data) => {
    if (queued < LONGEST_QUEUE) void write(event, data);
    else lost++;
  };
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
  const names = new Set([...session.conversations, ...(await listConversations(instance))]);
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

async function listConversations({ base, hostWorkspace }: { base: string; hostWorkspace: string }): Promise<string[]> {
  const names = await listDirectoriesNoFollow(base, path.relative(base, hostWorkspace).split(path.sep));
  return names.filter((name) => conversationIdSchema.safeParse(name).success);
}
