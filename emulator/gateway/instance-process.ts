import { lstat, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SandboxError } from '../errors.js';
import { removeTree } from '../files.js';
import { type Assignment, type FromInstance, fromInstanceSchema, type ToInstance } from '../instance-protocol.js';
import { type HostSettings, homeFiles, instanceEnvironment } from '../isolation/instance-environment.js';
import type { LaunchedInstance, Launcher } from '../isolation/launcher.js';
import { createLineChannel, type LineChannel } from '../line-channel.js';
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
  ended: Promise<InstanceEnd>;
  /** Ends the instance, by force after a while. */
  stop(): Promise<void>;
  /** Ends it at once. */
  kill(): void;
};

/** How an instance ended, for the log. */
export type InstanceEnd = { exitCode: number | null; signal: NodeJS.Signals | null; stderr?: string };

export type StartRequest = {
  id: string;
  place: InstancePlace;
  /** Directory for the socket; short, since a socket's path may have 107 bytes at most. */
  runtimeDir: string;
  launcher: Launcher;
  host: HostSettings;
  log: Log;
  assignment: Omit<Assignment, 'type' | 'sessionRoot'>;
  /** Told how to end it at once, as soon as there is something to end. */
  onLaunched(kill: () => void): void;
  /** @returns False when they are more than a session may hold. */
  onVariables(message: Extract<FromInstance, { type: 'variables' }>): boolean;
};

const START_DEADLINE_MS = 30_000;
const STOP_GRACE_MS = 2_000;
const LONGEST_SOCKET_PATH_BYTES = 103;
const KEPT_ERROR_BYTES = 4_000;
/** Characters; the largest message repeats the variables of one request. */
const LONGEST_MESSAGE = 4_000_000;

/**
 * Starts an instance and resolves when it takes requests.
 *
 * @throws SandboxError `INSTANCE_START_FAILED` with what the instance wrote to standard error.
 */
export async function startInstance(request: StartRequest): Promise<InstanceProcess> {
  const privateDirectory = path.join(request.runtimeDir, request.id);
  await mkdir(privateDirectory, { mode: 0o700 });
  const launched = await launch(request, privateDirectory);
  request.onLaunched(launched.kill);
  const errors = keepErrors(launched);
  const ended = launched.ended.then(async () => {
    if (!(await removeTree(privateDirectory)))
      request.log.warn({ directory: privateDirectory }, 'a directory could not be removed');
    return describeEnd(launched, errors());
  });
  try {
    const { channel, started } = converse(request, launched, privateDirectory);
    await Promise.race([
      started,
      ended.then(() => Promise.reject(new Error('the instance ended while it started'))),
      delay(START_DEADLINE_MS, undefined, { ref: false }).then(() =>
        Promise.reject(new Error('the instance did not start in time')),
      ),
    ]);
    return toInstanceProcess(request, launched, channel, await launched.pid(), ended);
  } catch (error) {
    launched.kill();
    await ended;
    const reason = error instanceof Error ? error.message : String(error);
    throw new SandboxError('INSTANCE_START_FAILED', `The sandbox could not be started: ${reason}. ${errors()}`.trim(), {
      cause: error,
    });
  }
}

function describeEnd({ child }: LaunchedInstance, errors: string): InstanceEnd {
  return { exitCode: child.exitCode, signal: child.signalCode, ...(errors === '' ? {} : { stderr: errors }) };
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
  return launcher.launch(directories, program, instanceEnvironment(host, paths, request.id));
}

/** Takes the socket out of the instance's reach once it listens, assigns the session and waits for its word. */
function converse(request: StartRequest, launched: LaunchedInstance, privateDirectory: string) {
  const socketPath = socketPathOf(request);
  let settle: { resolve(): void; reject(error: unknown): void } = { resolve() {}, reject() {} };
  const started = new Promise<void>((resolve, reject) => {
    settle = { resolve, reject };
  });
  const onListening = async () => {
    // Inside, a command could put a link to a socket of the host in its place. Moved out, it is reachable
    // for the gateway alone.
    await rename(path.join(privateDirectory, 'http.sock'), socketPath);
    if (!(await lstat(socketPath)).isSocket()) throw new Error('it listens on something that is not a socket');
    const { assignment, place } = request;
    await channel.send({ type: 'assign', sessionRoot: place.sessionRoot, ...assignment } satisfies ToInstance);
  };
  const refuse = () => {
    request.log.error({ instance: request.id }, 'an instance said what no instance says; it is ended');
    launched.kill();
  };
  let state: 'booting' | 'listening' | 'ready' = 'booting';
  const channel = createLineChannel(launched.channel, LONGEST_MESSAGE, {
    onMessage(raw) {
      const message = fromInstanceSchema.safeParse(raw).data;
      if (message?.type === 'listening' && state === 'booting') {
        state = 'listening';
        onListening().catch(settle.reject);
      } else if (message?.type === 'ready' && state === 'listening') {
        state = 'ready';
        settle.resolve();
      } else if (message?.type === 'variables' && state === 'ready') return request.onVariables(message);
      else return false;
      return true;
    },
    onViolation: refuse,
    onEnd() {}, // its exit tells
  });
  return { channel, started };
}

function socketPathOf({ runtimeDir, id }: StartRequest): string {
  const socketPath = path.join(runtimeDir, `${id}.sock`);
  if (Buffer.byteLength(socketPath) <= LONGEST_SOCKET_PATH_BYTES) return socketPath;
  throw new Error(`the path ${socketPath} is too long for a socket; set a shorter TMPDIR`);
}

function toInstanceProcess(
  request: StartRequest,
  launched: LaunchedInstance,
  channel: LineChannel,
  pid: number | undefined,
  ended: Promise<InstanceEnd>,
): InstanceProcess {
  const agent = new Agent({ keepAlive: true });
  const socketPath = socketPathOf(request);
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
      await rm(socketPath, { force: true }).catch(() => {}); // the whole runtime directory goes at the end
    }),
    async stop() {
      channel.send({ type: 'stop' } satisfies ToInstance).catch(() => {}); // it has ended already
      const forced = delay(STOP_GRACE_MS, 'late', { ref: false });
      if ((await Promise.race([ended, forced])) === 'late') launched.kill();
      await ended;
    },
    kill: launched.kill,
  };
}

function keepErrors(launched: LaunchedInstance): () => string {
  let kept = '';
  launched.child.stdout?.resume();
  launched.child.stderr?.on('data', (chunk) => {
    kept = (kept + chunk).slice(-KEPT_ERROR_BYTES);
  });
  return () => kept.trim();
}
