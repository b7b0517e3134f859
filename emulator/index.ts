import { once } from 'node:events';
import type { Server } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Config, type EmulatorOptions, parseConfig } from './config.js';
import { createControlApp, type SessionView } from './control/app.js';
import { createFileWatch, type FileWatch } from './control/file-watch.js';
import { type DataDir, openDataDir } from './data-dir.js';
import { createEvents } from './events.js';
import { createAccessTokens } from './gateway/access-tokens.js';
import { createGatewayApp } from './gateway/app.js';
import { requiredKeyPair } from './gateway/key-pair.js';
import { listen } from './gateway/listen.js';
import { createGatewayServer } from './gateway/server.js';
import { createSessionRegistry, type Session, type SessionRegistry } from './gateway/session-registry.js';
import { createSessionStore, type SessionStore } from './gateway/session-store.js';
import { chooseLauncher } from './isolation/choose-launcher.js';
import { readHostSettings } from './isolation/instance-environment.js';
import type { IsolationMode } from './isolation/launcher.js';
import { leadsThroughLink } from './links.js';
import { createLog, type Log } from './log.js';

export type { EmulatorOptions } from './config.js';

/** A running emulator. */
export type Emulator = {
  /** Base URL, without a slash at the end. */
  url: string;
  isolation: IsolationMode;
  /** Whose network instances use. `shared`: the host's, its loopback included. */
  network: 'shared';
  dataDir: string;
  /** Lets requests in flight finish for a few seconds, ends all instances and keeps their files. */
  close(): Promise<void>;
  /** Ends everything at once; files are kept all the same. */
  kill(): Promise<void>;
};

const CLOSE_GRACE_MS = 5_000;
const INSTANCE_ENTRY = fileURLToPath(new URL('../instance.mjs', import.meta.url));
const FILE_WATCH_PROGRAM = fileURLToPath(new URL('./control/file-watch-process.js', import.meta.url));

/**
 * Starts an emulator in this process and resolves once it listens.
 *
 * @throws z.ZodError for a setting that is not valid; Error when the port or the data directory is
 * taken, or isolation is required and not to be had. Nothing is left running then.
 */
export async function createEmulator(options: EmulatorOptions = {}): Promise<Emulator> {
  const config = parseConfig(options);
  const log = createLog(config.log);
  const dataDir = await openDataDir(config.dataDir, config.ephemeral);
  try {
    return await start(config, dataDir, log);
  } catch (error) {
    await dataDir.release();
    throw error;
  }
}

async function start(config: Config, dataDir: DataDir, log: Log): Promise<Emulator> {
  const parts = await assemble(config, dataDir, log);
  const { warning, registry } = parts;
  const facts = { name: 'scf-sandbox-emulator', isolation: parts.isolation, network: 'shared' as const };
  const state = { ...facts, url: '', auth: config.auth, dataDir: dataDir.path, pid: process.pid, warning };
  const control = createControlApp({
    facts: () => state,
    sessions: () => registry.list().map(toSessionView),
    events: parts.events,
    files: parts.files,
    closing: parts.closing.signal,
  });
  const health = () => ({ ok: true, status: 'ready', ...facts, sessions: registry.list().length });
  const server = createGatewayServer(createGatewayApp({ config, log, ...parts, control, health }));
  state.url = await listen(server, config);

  if (warning) log.warn(warning);
  log.warn("network is shared: programs in an instance reach this machine's own ports (but not the emulator's)");
  const ready = { event: 'ready', url: state.url, ...facts, dataDir: dataDir.path };
  log.info(ready, `ready on ${state.url}`);
  const { url, isolation, network } = state;
  return { url, isolation, network, dataDir: dataDir.path, ...createStop({ config, log, dataDir, server, ...parts }) };
}

/** Chooses the walls, brings back what an earlier run left, and makes the parts that requests meet. */
async function assemble(config: Config, dataDir: DataDir, log: Log) {
  const { runtimeDir } = dataDir;
  const [{ launcher, warning = null }, host, tokens, keyPair] = await Promise.all([
    chooseLauncher(config.isolation, INSTANCE_ENTRY, runtimeDir),
    readHostSettings(process.env, config.passEnv),
    createAccessTokens(dataDir.path, config.tokenTtl),
    requiredKeyPair(config, dataDir.path),
  ]);
  const store = createSessionStore(dataDir.path, launcher.mode, log);
  await store.recover();
  const events = createEvents();
  const registry = createSessionRegistry({ config, store, launcher, host, runtimeDir, log, events });
  const files = createFileWatch(FILE_WATCH_PROGRAM, () => registry.list().flatMap(toWatchedRoot), log);
  events.on('session', () => files.refresh());
  const isolation = launcher.mode;
  return { isolation, warning, tokens, keyPair, store, events, registry, files, closing: new AbortController() };
}

type StopDeps = {
  config: Config;
  log: Log;
  dataDir: DataDir;
  server: Server;
  registry: SessionRegistry;
  store: SessionStore;
  files: FileWatch;
  closing: AbortController;
};

function createStop({
  config,
  log,
  dataDir,
  server,
  registry,
  store,
  files,
  closing,
}: StopDeps): Pick<Emulator, 'close' | 'kill'> {
  let closed: Promise<void> | undefined;

  async function close(): Promise<void> {
    log.info('stopping; a second signal ends everything at once');
    closing.abort();
    files.close();
    registry.refuse();
    const drained = once(server, 'close');
    server.close();
    // A connection that is kept open is idle only after its answer.
    const idle = setInterval(() => server.closeIdleConnections(), 20);
    await Promise.race([drained, delay(CLOSE_GRACE_MS, undefined, { ref: false })]);
    clearInterval(idle);
    server.closeAllConnections();
    try {
      await registry.close();
      if (config.ephemeral) await store.removeMade();
    } finally {
      await dataDir.release();
    }
  }

  const closeOnce = () => {
    closed ??= close();
    return closed;
  };
  return {
    close: closeOnce,
    kill() {
      registry.kill();
      const done = closeOnce();
      server.closeAllConnections();
      return done;
    },
  };
}

function toSessionView({ key, conversations, generations, instance }: Session): SessionView {
  if (!instance) return { ...key, conversations, generations };
  const { id, pid, place } = instance;
  const { base, hostWorkspace, sessionRoot } = place;
  return { ...key, conversations, generations, instance: { id, pid, base, hostWorkspace, sessionRoot } };
}

function toWatchedRoot({ key, instance }: Session) {
  if (!instance || leadsThroughLink(instance.place.base, instance.place.hostWorkspace)) return [];
  return [{ ...key, directory: instance.place.hostWorkspace }];
}
