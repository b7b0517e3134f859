import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** One TCP socket of this network, as `/proc/net/tcp` tells it. Without `/proc` there are none. */
export type TcpSocket = { localPort: number; remotePort: number; listening: boolean; inode: string };

const STATE_LISTEN = '0A';

export function listTcpSockets(): TcpSocket[] {
  return ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) => readLines(file).slice(1)).flatMap(parseSocket);
}

/** True when the process has one of these sockets open; false also for another user's process. */
export function holdsSocket(pid: number, inodes: ReadonlySet<string>): boolean {
  if (inodes.size === 0) return false;
  const links = new Set([...inodes].map((inode) => `socket:[${inode}]`));
  return readNames(`/proc/${pid}/fd`).some((fd) => links.has(readLink(`/proc/${pid}/fd/${fd}`)));
}

function parseSocket(line: string): TcpSocket[] {
  const [, local, remote, state, , , , , , inode] = line.trim().split(/\s+/);
  if (local === undefined || remote === undefined || inode === undefined) return [];
  return [{ localPort: portOf(local), remotePort: portOf(remote), listening: state === STATE_LISTEN, inode }];
}

/** `0100007F:2328` → 9000 */
function portOf(address: string): number {
  return Number.parseInt(address.slice(address.lastIndexOf(':') + 1), 16);
}

function readLines(file: string): string[] {
  try {
    return readFileSync(file, 'latin1').split('\n');
  } catch {
    return [];
  }
}

function readNames(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return []; // ended meanwhile, or another user's
  }
}

function readLink(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    return '';
  }
}
