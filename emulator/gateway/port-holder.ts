import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { execa } from 'execa';
import { listPids } from '../processes.js';

/**
 * Names the program that listens on a TCP port, for the error message of a start that found the port
 * taken: `pid 4711 (node server.js)`. Undefined when it cannot be told.
 */
export async function findPortHolder(port: number): Promise<string | undefined> {
  const inodes = listeningInodes(port);
  const pid = listPids().find((candidate) => holdsSocket(candidate, inodes));
  if (pid !== undefined) return `pid ${pid} (${commandOf(pid)})`;
  // macOS has no /proc; lsof is part of the system there.
  const { stdout, exitCode } = await execa('lsof', ['-nP', `-iTCP:${port}`, '-sTCP:LISTEN', '-Fpc'], { reject: false });
  const found = exitCode === 0 ? /^p(\d+)\nc(.+)$/m.exec(stdout ?? '') : null;
  return found ? `pid ${found[1]} (${found[2]})` : undefined;
}

const STATE_LISTEN = '0A';

function listeningInodes(port: number): Set<string> {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const inodes = new Set<string>();
  for (const file of ['/proc/net/tcp', '/proc/net/tcp6']) {
    for (const line of readLines(file).slice(1)) {
      const fields = line.trim().split(/\s+/);
      const inode = fields[9];
      if (fields[1]?.endsWith(suffix) && fields[3] === STATE_LISTEN && inode) inodes.add(`socket:[${inode}]`);
    }
  }
  return inodes;
}

function holdsSocket(pid: number, inodes: Set<string>): boolean {
  if (inodes.size === 0) return false;
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => {
      try {
        return inodes.has(readlinkSync(`/proc/${pid}/fd/${fd}`));
      } catch {
        return false;
      }
    });
  } catch {
    return false; // ended meanwhile, or another user's
  }
}

function commandOf(pid: number): string {
  const words = readLines(`/proc/${pid}/cmdline`).join('').split('\0');
  return words.join(' ').trim().slice(0, 120) || 'unknown';
}

function readLines(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n');
  } catch {
    return [];
  }
}
