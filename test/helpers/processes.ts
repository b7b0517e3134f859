import { readdirSync, readFileSync } from 'node:fs';
import { isRunning } from '../../emulator/processes.js';

/** Pids on the host of the running processes that have `argument` among their arguments. */
export function pidsWithArgument(argument: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => isRunning(pid) && argumentsOf(pid).includes(argument));
}

function argumentsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return []; // it has ended
  }
}
