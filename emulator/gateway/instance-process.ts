import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SandboxError } from '../errors.js';
import { type Assignment, type FromInstance, fromInstanceSchema, type ToInstance } from '../instance-protocol.js';
import { type HostSettings, homeFiles, instanceEnvironment } from '../isolation/instance-environment.js';
import type { LaunchedInstance, Launcher } from '../isolation/launcher.js';
import type { Log } from '../log.js';
import type { InstancePlace } from './session-store.js';

/** A running instance: one generation of one session. */
export type InstanceProcess = {
  /** Different for every generation; sent to clients as `X-Emulator-Instance`. */
  id: string;
  /** Pid on the host of the instance's own program. */
  pid: number | undefined;
  /** Pid on the host of the process from which, inside a namespace, everything else descends. */
  rootPid: number | undefined;
  /** True when it runs in a namespace of its own. */
  isolated: boolean;
  place: InstancePlace;
  /** Where requests go, and over which connections. Both belong to this generation alone. */
  socketPath: string;
  agent: Agent;
  /** Resolves when no process of the instance is left. */
  ended: Promise<void>;
  /** Ends the instance, by force after a while. */
  stop(): Promise<void>;
  /** Ends it at once. */
  kill(): void;
};

export type StartRequest = {
  id: string;
  place: InstancePlace;
  /** Directory for the socket; short, since a socket's path may have 107 bytes at most. */
  runtimeDir: string;
  launcher: Launcher;
  host: HostSettings;
  log: Log;
  assignment: Omit<Assignment, 'type' | 'sessionRoot'>;
  onVariables(message: Extract<FromInstance, { type: 'variables' }>): void;
};

const START_DEADLINE_MS = 30_000;
const STOP_GRACE_MS = 2_000;
const LONGEST_SOCKET_PATH_BYTES = 103;
const KEPT_ERROR_BYTES = 4_000;

/**
 * Starts an instance and resolves when it takes requests.
 *
 * @throws SandboxError `INSTANCE_START_FAILED` with what the instance wrote to standard error.
 */
export async function startInstance(request: StartRequest): Promise<InstanceProcess> {
  const privateDirectory = path.join(request.runtimeDir, request.id);
  await mkdir(privateDirectory, { mode: 0o700 });
  const launched = await launch(request, privateDirectory);
  const errors = keepErrors(launched);
  const ended = launched.ended.then(() => rm(privateDirectory, { recursive: true, force: true }));
  try {
    const socketPath = await Promise.race([
      connect(request, launched, privateDirectory),
      ended.then(() => Promise.reject(new Error('the instance ended while it started'))),
      delay(START_DEADLINE_MS, undefined, { ref: false }).then(() =>
        Promise.reject(new Error('the instance did not start in time')),
      ),
    ]);
    return toInstanceProcess(request, launched, socketPath, await launched.pid(), ended);
  } catch (error) {
    launched.kill();
    await ended;
    const reason = error instanceof Error ? error.message : String(error);
    throw new SandboxError('INSTANCE_START_FAILED', `The sandbox could not be started: ${reason}. ${errors()}`.trim(), {
      cause: error,
    });
  }
}

async function launch(request: StartRequest, privateDirectory: string): Promise<LaunchedInstance> {
  const { launcher, place, host } = request;
  const directories = { tmp: place.tmp, home: place.home, private: privateDirectory };
  const view = launcher.view(directories);
  const paths = { home: view.home, nodeDirectory: path.dirname(view.node), tmp: view.tmp };
  const home = launcher.mode === 'namespace' ? path.join(place.home, path.basename(view.home)) : place.home;
  for (const [name, content] of Object.entries(homeFiles(host, paths))) {
    await writeFile(path.join(home, name), content, { flag: 'wx' }).catch(() => {}); // the session may have its own
  }
  const program = [view.node, view.entry, path.join(view.private, 'http.sock'), request.id];
  return launcher.launch(directories, program, instanceEnvironment(host, paths, request.id), 'ipc');
}

/** Waits for the socket, takes it out of the instance's reach and assigns the session. */
async function connect(request: StartRequest, launched: LaunchedInstance, privateDirectory: string): Promise<string> {
  const messages = receiveMessages(request, launched);
  await messages.next('listening');
  // Inside, a command could put a link to a socket of the host in its place. Moved out, it is reachable
  // for the gateway alone.
  const socketPath = path.join(request.runtimeDir, `${request.id}.sock`);
  if (Buffer.byteLength(socketPath) > LONGEST_SOCKET_PATH_BYTES)
    throw new Error(`the path ${socketPath} is too long for a socket; set a shorter TMPDIR`);
  await rename(path.join(privateDirectory, 'http.sock'), socketPath);
  send(launched, { type: 'assign', sessionRoot: request.place.sessionRoot, ...request.assignment });
  await messages.next('ready');
  return socketPath;
}

function receiveMessages(request: StartRequest, launched: LaunchedInstance) {
  const waiting = new Map<FromInstance['type'], () => void>();
  launched.child.on('message', (raw) => {
    const message = fromInstanceSchema.safeParse(raw);
    if (!message.success) request.log.warn({ instance: request.id }, 'ignored a malformed message of an instance');
    else if (message.data.type === 'variables') request.onVariables(message.data);
    else waiting.get(message.data.type)?.();
  });
  return { next: (type: FromInstance['type']) => new Promise<void>((resolve) => waiting.set(type, resolve)) };
}

function toInstanceProcess(
  request: StartRequest,
  launched: LaunchedInstance,
  socketPath: string,
  pid: number | undefined,
  ended: Promise<void>,
): InstanceProcess {
  const agent = new Agent({ keepAlive: true });
  return {
    id: request.id,
    pid,
    rootPid: launched.child.pid,
    isolated: request.launcher.mode === 'namespace',
    place: request.place,
    socketPath,
    agent,
    ended: ended.finally(async () => {
      agent.destroy();
      await rm(socketPath, { force: true });
    }),
    async stop() {
      send(launched, { type: 'stop' });
      const forced = delay(STOP_GRACE_MS, 'late', { ref: false });
      if ((await Promise.race([ended, forced])) === 'late') launched.kill();
      await ended;
    },
    kill: launched.kill,
  };
}

function send(launched: LaunchedInstance, message: ToInstance): void {
  // A channel that has closed means that the instance has ended, which is noticed by its exit.
  if (launched.child.connected) launched.child.send(message, () => {});
}

function keepErrors(launched: LaunchedInstance): () => string {
  let kept = '';
  launched.child.stdout?.resume();
  launched.child.stderr?.on('data', (chunk) => {
    kept = (kept + chunk).slice(-KEPT_ERROR_BYTES);
  });
  return () => kept.trim();
}
