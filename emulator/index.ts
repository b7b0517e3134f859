import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createAdaptorServer } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { type Config, type EmulatorOptions, isLoopback, parseConfig } from './config.js';
import { createControlApp, type SessionView } from './control/app.js';
import { createFileWatch, type FileWatch } from './control/file-watch.js';
import { type DataDir, openDataDir } from './data-dir.js';
import { systemErrorCode } from './errors.js';
import { createEvents } from './events.js';
import { createAccessTokens } from './gateway/access-tokens.js';
import { createGatewayApp } from './gateway/app.js';
import { findPortHolder } from './gateway/port-holder.js';
import { createSessionRegistry, type Session, type SessionRegistry } from './gateway/session-registry.js';
import { createSessionStore, type SessionStore } from './gateway/session-store.js';
import type { Credentials } from './gateway/token-route.js';
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
const KEEP_ALIVE_MS = 65_000;
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
  const [{ launcher, warning }, host, tokens, credentials] = await Promise.all([
    chooseLauncher(config.isolation, INSTANCE_ENTRY, dataDir.runtimeDir),
    readHostSettings(process.env, config.passEnv),
    createAccessTokens(dataDir.path, config.tokenTtl),
    requiredCredentials(config, dataDir.path),
  ]);
  const store = createSessionStore(dataDir.path, launcher.mode);
  await store.recover();
  const events = createEvents();
  const closing = new AbortController();
  const registry = createSessionRegistry({
    config,
    store,
    launcher,
    host,
    runtimeDir: dataDir.runtimeDir,
    log,
    events,
  });
  const files = createFileWatch(FILE_WATCH_PROGRAM, () => registry.list().flatMap(toWatchedRoot), log);
  events.on('session', () => files.refresh());

  const facts = { name: 'scf-sandbox-emulator', isolation: launcher.mode, network: 'shared' as const };
  const server = createAdaptorServer({
    async fetch(request, env) {
      const response = await app.fetch(request, env);
      // For HEAD, hono wraps the mark of an answer that was piped, and it is not known again.
      return env.outgoing.headersSent ? RESPONSE_ALREADY_SENT : response;
    },
    serverOptions: { keepAliveTimeout: KEEP_ALIVE_MS },
  }) as Server; // HTTP/1.1, since no other server is asked for
  const address = () => toUrl(config.host, server);
  const control = createControlApp({
    facts: () => ({
      ...facts,
      url: address(),
      auth: config.auth,
      dataDir: dataDir.path,
      pid: process.pid,
      warning: warning ?? null,
    }),
    sessions: () => registry.list().map(toSessionView),
    events,
    files,
    closing: closing.signal,
  });
  const app = createGatewayApp({
    config,
    log,
    events,
    tokens,
    credentials,
    registry,
    control,
    health: () => ({ ok: true, status: 'ready', ...facts, sessions: registry.list().length }),
  });
  await listen(server, config);
  if (warning) log.warn(warning);
  log.warn("network is shared: programs in an instance reach this machine's own ports (but not the emulator's)");
  log.info({ event: 'ready', url: address(), ...facts, dataDir: dataDir.path }, `ready on ${address()}`);

  const stop = createStop({ config, log, dataDir, server, registry, store, files, closing });
  return { url: address(), isolation: launcher.mode, network: 'shared', dataDir: dataDir.path, ...stop };
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
    const drained = once(server, 'close');
    server.close();
    server.closeIdleConnections();
    await Promise.race([drained, delay(CLOSE_GRACE_MS, undefined, { ref: false })]);
    server.closeAllConnections();
    await registry.close();
    if (config.ephemeral) await store.removeMade();
    await dataDir.release();
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

async function listen(server: Server, config: Config): Promise<void> {
  server.listen(config.port, config.host);
  try {
    await once(server, 'listening');
  } catch (error) {
    throw await explainListenFailure(error, config);
  }
}

async function explainListenFailure(error: unknown, { host, port }: Config): Promise<Error> {
  const code = systemErrorCode(error);
  if (code === 'EADDRINUSE') {
    const holder = (await findPortHolder(port)) ?? 'another program';
    return new Error(
      `Port ${port} is taken by ${holder}. Stop it, or choose another port with --port (0 takes a free one).`,
    );
  }
  if (code === 'EACCES')
    return new Error(`Port ${port} needs more rights than this user has. Choose one above 1023 with --port.`);
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return new Error(`This machine has no address ${host}. Choose another with --host.`);
  return error instanceof Error ? error : new Error(String(error));
}

/**
 * The key pair that the token endpoint asks for: the configured one; else one made and kept in the data
 * directory when others than this machine can reach the emulator; else none, and any pair will do.
 */
async function requiredCredentials(config: Config, dataDir: string): Promise<Credentials | undefined> {
  if (config.credentials) return config.credentials;
  if (isLoopback(config.host)) return undefined;
  const file = path.join(dataDir, 'credentials.json');
  const made = { secretId: randomBytes(16).toString('hex'), secretKey: randomBytes(24).toString('hex') };
  await writeFile(file, JSON.stringify(made, null, 2), { flag: 'wx', mode: 0o600 }).catch(() => {}); // made by an earlier run
  return JSON.parse(await readFile(file, 'utf8'));
}

function toUrl(host: string, server: Server): string {
  // A listening TCP server has an address with a port.
  const { port } = server.address() as AddressInfo;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
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
