import type { Socket } from 'node:net';
import type { MiddlewareHandler } from 'hono';
import { isLoopback } from '../config.js';
import { SandboxError } from '../errors.js';
import { findLeftovers } from '../isolation/leftovers.js';
import { descendantsOf, snapshotProcesses } from '../processes.js';
import { holdsSocket, listTcpSockets } from '../tcp-sockets.js';
import type { InstanceProcess } from './instance-process.js';
import type { GatewayEnv } from './request-record.js';

/**
 * Refuses callers that run inside an instance. Where instances share the network of the machine, one
 * `curl` with another environment's header would otherwise read that environment.
 *
 * A connection belongs to whoever has its other end open, which `/proc` tells; it is looked up once for
 * each connection. A caller that has already closed its end cannot be told apart and is refused too.
 * Evidence: emulator-only.
 *
 * @param instances The instances that run now.
 */
export function refuseInsideCallers(instances: () => InstanceProcess[]): MiddlewareHandler<GatewayEnv> {
  const judged = new WeakMap<Socket, boolean>();
  return async (c, next) => {
    const { socket } = c.env.incoming;
    const inside = judged.get(socket) ?? isInside(socket, instances());
    judged.set(socket, inside);
    if (inside) {
      throw new SandboxError('ACCESS_DENIED', 'Programs inside a sandbox may not call the emulator');
    }
    await next();
  };
}

function isInside({ localPort, remotePort, remoteAddress = '' }: Socket, instances: InstanceProcess[]): boolean {
  const sockets = instances.length === 0 ? [] : listTcpSockets();
  if (sockets.length === 0) return false;
  const ends = sockets.filter((end) => end.localPort === remotePort && end.remotePort === localPort);
  if (ends.length === 0) return remotePort === undefined || isLoopback(remoteAddress);
  if (ends.some(({ inode }) => inode === CLOSED)) return true;
  const inodes = new Set(ends.map(({ inode }) => inode));
  return processesOf(instances).some((pid) => holdsSocket(pid, inodes));
}

/** What stands for the inode of a socket that nobody has open any more. */
const CLOSED = '0';

function processesOf(instances: InstanceProcess[]): number[] {
  const snapshot = snapshotProcesses();
  return instances.flatMap(({ id, rootPid, isolated }) => {
    const tree = rootPid === undefined ? [] : [rootPid, ...descendantsOf(rootPid, snapshot)];
    // Without a namespace, what a command left behind descends from nobody here.
    return isolated ? tree : [...tree, ...findLeftovers(id)];
  });
}
