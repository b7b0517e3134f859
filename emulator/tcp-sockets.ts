import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { isIPv4 } from 'node:net';

/** One end of a TCP connection, as Node names it. */
export type TcpEnd = { address: string; port: number };

/** Who owns a socket, as `/proc/net/tcp` tells it. The inode is 0 when nobody has it open any more. */
export type SocketOwner = { inode: string; uid: number };

const TABLES = ['/proc/net/tcp', '/proc/net/tcp6'] as const;
const STATE_LISTEN = '0A';

/** False on systems that do not tell about sockets. */
export function hasSocketTables(): boolean {
  return existsSync(TABLES[0]);
}

/**
 * The sockets of this network at one moment. Each table is read when it is first needed, since the
 * kernel takes milliseconds to write one.
 */
export function createSocketTables() {
  const texts = new Map<string, string>();
  const textOf = (table: string) => {
    const text = texts.get(table) ?? readText(table);
    texts.set(table, text);
    return text;
  };
  return {
    /** Finds the socket whose own end is `local` and whose other end is `remote`. */
    findOwner(local: TcpEnd, remote: TcpEnd): SocketOwner | undefined {
      for (const [table, encode] of [
        [TABLES[0], encodeV4],
        [TABLES[1], encodeV6],
      ] as const) {
        const ends = `${encode(local)} ${encode(remote)} `;
        const text = ends.includes('?') ? '' : textOf(table);
        const start = text.indexOf(ends);
        if (start >= 0) return parseOwner(text.slice(start, text.indexOf('\n', start)).split(/\s+/));
      }
      return undefined;
    },
  };
}

export type SocketTables = ReturnType<typeof createSocketTables>;

/** Inodes of the sockets that listen on a port. */
export function findListeners(port: number): Set<string> {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  const listener = new RegExp(`:${hex} [0-9A-F]+:0000 ${STATE_LISTEN} (?:\\S+ +){5}(\\d+)`, 'g');
  return new Set([...TABLES.map(readText).join('').matchAll(listener)].map(([, inode = '']) => inode));
}

/** Which of the `wanted` sockets a process has open; none of another user's process. */
export function socketsOf(pid: number, wanted: ReadonlySet<string>): string[] {
  return readNames(`/proc/${pid}/fd`).flatMap((fd) => {
    const inode = /^socket:\[(\d+)\]$/.exec(readLink(`/proc/${pid}/fd/${fd}`))?.[1];
    return inode !== undefined && wanted.has(inode) ? [inode] : [];
  });
}

/** Columns after the two ends: state, queues, timer, retransmits, uid, timeout, inode. */
function parseOwner(fields: string[]): SocketOwner | undefined {
  const [uid, inode] = [fields[6], fields[8]];
  return uid === undefined || inode === undefined ? undefined : { uid: Number(uid), inode };
}

/** The kernel writes addresses as words in the byte order of the machine, which is little-endian here. */
function encodeV4({ address, port }: TcpEnd): string {
  const plain = address.replace(/^::ffff:/, '');
  if (!isIPv4(plain)) return '?';
  return `${toHex(plain.split('.').map(Number).reverse())}:${toHex([port >> 8, port & 0xff])}`;
}

function encodeV6({ address, port }: TcpEnd): string {
  const bytes = v6Bytes(address);
  if (!bytes) return '?';
  const words = [0, 4, 8, 12].flatMap((start) => bytes.slice(start, start + 4).reverse());
  return `${toHex(words)}:${toHex([port >> 8, port & 0xff])}`;
}

function v6Bytes(address: string): number[] | undefined {
  const plain = address.replace(/^::ffff:/, '');
  if (isIPv4(plain)) return [...new Array(10).fill(0), 0xff, 0xff, ...plain.split('.').map(Number)];
  const [head = '', tail] = (address.split('%')[0] ?? '').split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16)));
  const [first, last] = [groups(head), groups(tail ?? '')];
  const all = [...first, ...new Array(Math.max(0, 8 - first.length - last.length)).fill(0), ...last];
  return all.length === 8 ? all.flatMap((group) => [group >> 8, group & 0xff]) : undefined;
}

function toHex(bytes: number[]): string {
  return bytes.map((byte) => byte.toString(16).toUpperCase().padStart(2, '0')).join('');
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
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
