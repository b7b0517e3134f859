import { readdirSync, readFileSync } from 'node:fs';

/**
 * What `/proc` tells about processes. All reads are synchronous: they are answered from memory, and
 * a snapshot taken across awaits would be of no one moment. On systems without `/proc` every list is
 * empty, so callers fall back to process groups there.
 */
export type ProcessStat = {
  pid: number;
  parentPid: number;
  groupId: number;
  /** Clock ticks since boot; with the pid it names one process even after the pid is used again. */
  startTime: string;
  state: string;
};

/** Pids of all processes that are visible from here. */
export function listPids(): number[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^[1-9][0-9]*$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

/** Undefined when there is no such process (any more). */
export function readProcessStat(pid: number): ProcessStat | undefined {
  const text = readProcFile(pid, 'stat');
  if (text === undefined) return undefined;
  // The command name stands in parentheses and may itself hold spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, parentPid, groupId] = fields;
  const startTime = fields[19];
  if (state === undefined || startTime === undefined) return undefined;
  return { pid, parentPid: Number(parentPid), groupId: Number(groupId), startTime, state };
}

/** A zombie has ended; it only waits for its parent to notice. */
export function isRunning(pid: number): boolean {
  const stat = readProcessStat(pid);
  return stat !== undefined && stat.state !== 'Z' && stat.state !== 'X';
}

/** True while the very process that `stat` was read of runs; a pid alone may belong to another by now. */
export function isSameRunning({ pid, startTime }: Pick<ProcessStat, 'pid' | 'startTime'>): boolean {
  return isRunning(pid) && readProcessStat(pid)?.startTime === startTime;
}

/** True when the process was started with exactly this `NAME=value` in its environment. */
export function hasEnvironmentEntry(pid: number, entry: string): boolean {
  const environment = readProcFile(pid, 'environ');
  return environment !== undefined && `\0${environment}`.includes(`\0${entry}\0`);
}

/** True when the process was started with this variable in its environment, whatever its value. */
export function hasEnvironmentVariable(pid: number, name: string): boolean {
  return `\0${readProcFile(pid, 'environ') ?? ''}`.includes(`\0${name}=`);
}

/** Stats of `pids`, keyed by pid; processes that ended meanwhile are left out. */
export function snapshotProcesses(pids: Iterable<number> = listPids()): Map<number, ProcessStat> {
  const stats = new Map<number, ProcessStat>();
  for (const pid of pids) {
    const stat = readProcessStat(pid);
    if (stat) stats.set(pid, stat);
  }
  return stats;
}

/** All processes below `rootPid`, without it, in no particular order. */
export function descendantsOf(rootPid: number, snapshot = snapshotProcesses()): number[] {
  const children = groupByParent(snapshot.values());
  const found: number[] = [];
  const pending = [rootPid];
  for (let pid = pending.pop(); pid !== undefined; pid = pending.pop()) {
    for (const child of children.get(pid) ?? []) {
      found.push(child.pid);
      pending.push(child.pid);
    }
  }
  return found;
}

/** Proportional set size in bytes where the kernel tells it, else the resident set size; 0 when gone. */
export function readMemoryBytes(pid: number): number {
  const rollup = readProcFile(pid, 'smaps_rollup');
  const kibibytes =
    rollup?.match(/^Pss:\s+(\d+) kB$/m)?.[1] ?? readProcFile(pid, 'status')?.match(/^VmRSS:\s+(\d+) kB$/m)?.[1];
  return kibibytes === undefined ? 0 : Number(kibibytes) * 1024;
}

/**
 * Sends a signal to one process, or to a process group when `pid` is negative. Refuses 0, 1, -1 and
 * everything that is not a whole number: `kill(-1)` as root would hang up the whole machine.
 *
 * @returns False when there is no such process.
 */
export function sendSignal(pid: number, signal: NodeJS.Signals | 0): boolean {
  if (!Number.isSafeInteger(pid) || Math.abs(pid) <= 1) throw new RangeError(`refusing to signal pid ${pid}`);
  try {
    process.kill(pid, signal);
    return true;
  } catch {
    return false;
  }
}

function groupByParent(stats: Iterable<ProcessStat>): Map<number, ProcessStat[]> {
  const groups = new Map<number, ProcessStat[]>();
  for (const stat of stats) {
    const group = groups.get(stat.parentPid);
    if (group) group.push(stat);
    else groups.set(stat.parentPid, [stat]);
  }
  return groups;
}

function readProcFile(pid: number, name: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch {
    return undefined;
  }
}
