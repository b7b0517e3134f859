import { randomBytes } from 'node:crypto';
import type { Config } from '../config.js';
import { SandboxError } from '../errors.js';
import type { Events, SessionEvent } from '../events.js';
import type { HostSettings } from '../isolation/instance-environment.js';
import type { Launcher } from '../isolation/launcher.js';
import type { Log } from '../log.js';
import { createSessionVariables, type SessionVariables } from '../session-variables.js';
import { type InstanceEnd, type InstanceProcess, type StartRequest, startInstance } from './instance-process.js';
import { type SessionKey, toKeyString } from './session-key.js';
import type { InstancePlace, SessionStore } from './session-store.js';

/** One session of this run: lives on while its instances come and go. */
export type Session = {
  key: SessionKey;
  variables: SessionVariables;
  /** Conversations that were named by a request. */
  conversations: Set<string>;
  /** Counts the instances that this session has had. */
  generations: number;
  instance: InstanceProcess | undefined;
  starting: Promise<InstanceProcess> | undefined;
  /** Ends the instance at once, also one that still starts. */
  kill(): void;
  /** True when an instance that is only being launched is to be ended as well. */
  isKilled: boolean;
  /** Files that an ended instance still holds. */
  unreturned: InstancePlace | undefined;
  /** Resolves when the previous instance has ended and an attempt was made to return its files. */
  settled: Promise<void>;
  /** True when the end of the instance is wanted. */
  stopping: boolean;
};

export type RegistryDeps = {
  config: Config;
  store: SessionStore;
  launcher: Launcher;
  host: HostSettings;
  runtimeDir: string;
  log: Log;
  events: Events;
};

/** Finds or starts the instance of a session. Callers of one session share one start. */
export function createSessionRegistry(deps: RegistryDeps) {
  const sessions = new Map<string, Session>();
  let closing = false;

  function sessionOf(key: SessionKey): Session {
    const name = toKeyString(key);
    const known = sessions.get(name);
    if (known) return known;
    const session: Session = {
      key,
      variables: createSessionVariables(),
      conversations: new Set(),
      generations: 0,
      instance: undefined,
      starting: undefined,
      kill() {},
      isKilled: false,
      unreturned: undefined,
      settled: Promise.resolve(),
      stopping: false,
    };
    sessions.set(name, session);
    return session;
  }

  return {
    /**
     * The running instance of a session, started if need be.
     *
     * @throws SandboxError `INSTANCE_START_FAILED`, or `SHUTTING_DOWN` once the emulator stops.
     */
    async acquire(key: SessionKey): Promise<InstanceProcess> {
      if (closing)
        throw new SandboxError('SHUTTING_DOWN', 'The emulator is stopping; start it again and repeat the request');
      const session = sessionOf(key);
      if (session.instance) return session.instance;
      session.starting ??= start(session, deps).finally(() => {
        session.starting = undefined;
      });
      return session.starting;
    },

    noteConversation(key: SessionKey, conversationId: string): void {
      sessions.get(toKeyString(key))?.conversations.add(conversationId);
    },

    hasInstances: (): boolean => [...sessions.values()].some(({ instance }) => instance !== undefined),

    list: (): Session[] => [...sessions.values()],

    /** Takes no more requests; those that have an instance go on. */
    refuse(): void {
      closing = true;
    },

    /** Ends all instances and resolves when every file is back in the store. */
    async close(): Promise<void> {
      closing = true;
      await Promise.all(
        [...sessions.values()].map(async (session) => {
          session.stopping = true;
          const instance = await session.starting?.catch(() => undefined);
          await (instance ?? session.instance)?.stop();
          await session.settled;
        }),
      );
    },

    /** Ends all instances at once, without grace. */
    kill(): void {
      closing = true;
      for (const session of sessions.values()) {
        session.isKilled = true;
        session.kill();
      }
    },
  };
}

export type SessionRegistry = ReturnType<typeof createSessionRegistry>;

async function start(session: Session, deps: RegistryDeps): Promise<InstanceProcess> {
  const id = `i${Date.now().toString(36)}${randomBytes(4).toString('hex')}`;
  announce(session, 'starting', id, deps);
  try {
    return await startWithFiles(session, id, deps);
  } catch (error) {
    announce(session, 'failed', id, deps);
    deps.log.error({ ...session.key, instance: id, err: error }, 'an instance could not be started');
    if (error instanceof SandboxError) throw error;
    throw new SandboxError('INSTANCE_START_FAILED', `The sandbox could not be started: ${String(error)}`, {
      cause: error,
    });
  }
}

async function startWithFiles(session: Session, id: string, deps: RegistryDeps): Promise<InstanceProcess> {
  await session.settled;
  await returnFiles(session, deps); // a session never starts on an empty workspace while its own is elsewhere
  const place = await deps.store.attach(session.key, id);
  session.unreturned = place;
  const started = startInstance(toStartRequest(session, id, place, deps)).then((instance) => {
    session.generations++;
    session.instance = instance;
    announce(session, 'active', id, deps);
    return instance;
  });
  session.settled = started
    .then(async (instance) => {
      const end = await instance.ended;
      session.instance = undefined;
      announce(session, session.stopping ? 'stopped' : 'crashed', id, deps, end);
    })
    .catch(() => {}) // a failed start is reported to its caller
    .then(() => returnFiles(session, deps))
    .catch((error) =>
      deps.log.error({ ...session.key, instance: id, err: error }, 'the files of a session could not be put back'),
    );
  return started;
}

async function returnFiles(session: Session, deps: RegistryDeps): Promise<void> {
  if (session.unreturned) await deps.store.detach(session.unreturned);
  session.unreturned = undefined;
}

function toStartRequest(session: Session, id: string, place: InstancePlace, deps: RegistryDeps): StartRequest {
  const { config, launcher, host, runtimeDir, log } = deps;
  return {
    id,
    place,
    runtimeDir,
    launcher,
    host,
    log,
    assignment: {
      ...session.key,
      variables: session.variables.snapshot(),
      isolation: launcher.mode,
      network: 'shared',
      strictFields: config.strictFields,
      cancelOnDisconnect: config.cancelOnDisconnect,
    },
    onLaunched(kill) {
      session.kill = kill;
      if (session.isKilled) kill();
    },
    onVariables: ({ values, conversationId }) => session.variables.apply(values, conversationId),
  };
}

function announce(
  session: Session,
  state: SessionEvent['state'],
  instance: string,
  deps: RegistryDeps,
  end?: InstanceEnd,
): void {
  deps.events.emit('session', { ...session.key, state, instance });
  const line = { ...session.key, instance, pid: session.instance?.pid, ...end };
  if (state === 'crashed')
    deps.log.warn(line, 'instance ended unexpectedly; the next request gets a new one on the same workspace');
  else deps.log.info(line, `session ${state}`);
}
