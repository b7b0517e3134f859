import { readdirSync, readFileSync } from 'node:fs';
import { isRunning } from '../../emulator/processes.js';

/** Pids on the host of the running processes that have `argument` among their arguments. */
export function pidsWithArgument(argument: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => isRunning(pid) && argumentsOf(pid).includes(argument));
}

/** Most memory, in bytes, that a process has held at any time of its life. */
export function peakMemoryBytes(pid: number): number {
  const peak = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
  if (peak === undefined) throw new Error(`process ${pid} tells no peak memory`);
  return Number(peak) * 1024;
}

function argumentsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return []; // it has ended
  }
}
