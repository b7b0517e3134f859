import type { Socket } from 'node:net';
import type { MiddlewareHandler } from 'hono';
import { isLoopback } from '../config.js';
import { SandboxError } from '../errors.js';
import { isMarked } from '../isolation/leftovers.js';
import { listPids } from '../processes.js';
import { createSocketTables, hasSocketTables, type SocketTables, socketsOf } from '../tcp-sockets.js';
import type { GatewayEnv } from './request-record.js';

/**
 * Refuses callers that run inside an instance, of this emulator or of another. Where instances share
 * the network of the machine, one `curl` with another environment's header would otherwise read that
 * environment.
 *
 * A caller on this machine is let in when a process that is not inside an instance is seen to have the
 * other end of the connection open. Whoever hides that, or has closed it already, is refused too. Each
 * connection is judged once; those that arrive together are judged in one look. Evidence: emulator-only.
 *
 * @param isNeeded False while no instance runs, which is when nobody can be inside.
 */
export function refuseInsideCallers(isNeeded: () => boolean): MiddlewareHandler<GatewayEnv> {
  const judged = new WeakMap<Socket, Promise<boolean>>();
  const judge = createJudge();
  // Without the tables, or inside an instance itself, the emulator can tell nobody apart.
  const isAble = hasSocketTables() && !isMarked(process.pid);
  return async (c, next) => {
    const { socket } = c.env.incoming;
    const verdict = judged.get(socket) ?? (isAble && isNeeded() ? judge(socket) : Promise.resolve(true));
    judged.set(socket, verdict);
    if (!(await verdict)) {
      throw new SandboxError(
        'ACCESS_DENIED',
        'Only programs outside every sandbox may call the emulator, and this one is not seen to be',
      );
    }
    await next();
  };
}

type Case = { socket: Socket; resolve(isOutside: boolean): void };

/** Judges all connections that came in the same turn of the event loop by one look at the processes. */
function createJudge(): (socket: Socket) => Promise<boolean> {
  let waiting: Case[] = [];
  const look = () => {
    const cases = waiting;
    waiting = [];
    judgeAll(cases);
  };
  return (socket) =>
    new Promise((resolve) => {
      if (waiting.push({ socket, resolve }) === 1) setImmediate(look);
    });
}

function judgeAll(cases: Case[]): void {
  const tables = createSocketTables();
  const open = new Map<string, Case>();
  for (const one of cases) {
    const inode = callerInode(one.socket, tables);
    if (inode === OUTSIDE || inode === UNKNOWN) one.resolve(inode === OUTSIDE);
    else open.set(inode, one);
  }
  for (const inode of heldOutside(new Set(open.keys()))) {
    open.get(inode)?.resolve(true);
    open.delete(inode);
  }
  for (const { resolve } of open.values()) resolve(false);
}

/** Those of the sockets that a process outside every instance has open. */
function heldOutside(wanted: Set<string>): string[] {
  const found: string[] = [];
  // This process first: in a test, the emulator and its callers are often one.
  for (const pid of [process.pid, ...listPids()]) {
    if (wanted.size === 0) break;
    const inodes = socketsOf(pid, wanted);
    if (inodes.length === 0 || isMarked(pid)) continue;
    for (const inode of inodes) wanted.delete(inode);
    found.push(...inodes);
  }
  return found;
}

const OUTSIDE = 'outside';
const UNKNOWN = 'unknown';

/** The socket that the caller has open, or what is known without it. */
function callerInode(socket: Socket, tables: SocketTables): string {
  const { localAddress, localPort, remoteAddress, remotePort } = socket;
  if (
    localAddress === undefined ||
    localPort === undefined ||
    remoteAddress === undefined ||
    remotePort === undefined
  ) {
    return UNKNOWN; // gone already
  }
  const caller = { address: remoteAddress, port: remotePort };
  const owner = tables.findOwner(caller, { address: localAddress, port: localPort });
  if (!owner) return isLoopback(remoteAddress) ? UNKNOWN : OUTSIDE; // another machine's
  // Without root, instances have the emulator's own user; the processes of others cannot be looked at.
  const uid = process.getuid?.() ?? 0;
  if (uid !== 0 && owner.uid !== uid && owner.inode !== CLOSED) return OUTSIDE;
  return owner.inode === CLOSED ? UNKNOWN : owner.inode;
}

/** What stands for the inode of a socket that nobody has open any more. */
const CLOSED = '0';
