import { readdirSync, readFileSync } from 'node:fs';

/** Pids on this machine, those inside namespaces included, of the processes that carry `argument` in their command line. */
export function pidsWithArgument(argument: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && commandLine(name).includes(argument))
    .map(Number);
}

/** Most memory, in bytes, that a process has held at any time of its life. */
export function peakMemoryBytes(pid: number): number {
  const peak = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
  if (peak === undefined) throw new Error(`process ${pid} tells no peak memory`);
  return Number(peak) * 1024;
}

function commandLine(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return []; // ended meanwhile
  }
}
