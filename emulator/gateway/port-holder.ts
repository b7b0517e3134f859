import { readFileSync } from 'node:fs';
import { execa } from 'execa';
import { listPids } from '../processes.js';
import { findListeners, socketsOf } from '../tcp-sockets.js';

/**
 * Names the program that listens on a TCP port, for the error message of a start that found the port
 * taken: `pid 4711 (node server.js)`. Undefined when it cannot be told.
 */
export async function findPortHolder(port: number): Promise<string | undefined> {
  const listeners = findListeners(port);
  const pid =
    listeners.size === 0 ? undefined : listPids().find((candidate) => socketsOf(candidate, listeners).length > 0);
  if (pid !== undefined) return `pid ${pid} (${commandOf(pid)})`;
  // macOS has no /proc; lsof is part of the system there.
  const query = ['-nP', `-iTCP:${port}`, '-sTCP:LISTEN', '-Fpc'];
  const { stdout, exitCode } = await execa('lsof', query, { reject: false });
  const found = exitCode === 0 ? /^p(\d+)\nc(.+)$/m.exec(stdout ?? '') : null;
  return found ? `pid ${found[1]} (${found[2]})` : undefined;
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim().slice(0, 120) || 'unknown';
  } catch {
    return 'unknown';
  }
}
