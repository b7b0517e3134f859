import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import {
  descendantsOf,
  hasEnvironmentEntry,
  isRunning,
  listPids,
  sendSignal,
  snapshotProcesses,
} from '../processes.js';

/** Name of the environment variable by which every process of a call can be found again. */
export const CALL_VARIABLE = 'SCF_SANDBOX_CALL';

/** One running or ended command: its first process leads a process group of its own. */
export type Call = {
  groupId: number;
  /** Value of `SCF_SANDBOX_CALL` in the environment of all that the command started. */
  callId: string;
  startedAt: number;
};

/**
 * Everything that the call started and that still runs: its process group, what carries its marker
 * (`setsid`, double forks) and what descends from either. Only `env -i` together with a double fork
 * escapes all three; such a process ends with the instance.
 */
function findCallProcesses(call: Call): number[] {
  const snapshot = snapshotProcesses(pidsSince(call));
  const marker = `${CALL_VARIABLE}=${call.callId}`;
  const found = new Set<number>();
  for (const { pid, groupId } of snapshot.values()) {
    if (groupId !== call.groupId && !hasEnvironmentEntry(pid, marker)) continue;
    found.add(pid);
    for (const descendant of descendantsOf(pid, snapshot)) found.add(descendant);
  }
  return [...found].filter(isRunning);
}

/** True when something of the call still runs. The process group is asked first, since that costs next to nothing. */
export function isCallAlive(call: Call): boolean {
  return sendSignal(-call.groupId, 0) || findCallProcesses(call).length > 0;
}

/**
 * Ends everything that the call started: TERM, then KILL after `graceMs`, then KILL again until
 * nothing is left, since a process may fork while it is being looked for.
 */
export async function terminateCall(call: Call, graceMs: number): Promise<void> {
  const killAt = performance.now() + graceMs;
  signalAll(call, 'SIGTERM');
  while (performance.now() < killAt && isCallAlive(call)) await delay(Math.min(10, graceMs));
  for (let pass = 0; pass < 40 && isCallAlive(call); pass++) {
    signalAll(call, 'SIGKILL');
    await delay(5);
  }
}

function signalAll(call: Call, signal: NodeJS.Signals): void {
  const pids = findCallProcesses(call);
  sendSignal(-call.groupId, signal);
  for (const pid of pids) sendSignal(pid, signal);
}

/** How long a call may run before process ids could have come round to where it began. */
const PID_ORDER_TRUSTED_MS = 5_000;

/** Up to so many pids it is quicker to ask for each than to list all that exist. */
const LONGEST_SPAN = 64;

/**
 * Pids are given out in ascending order, so what a short call started has a higher one than its first
 * process; that spares reading every process of the machine after each command. When the order has
 * wrapped, or might have, all pids count.
 */
function pidsSince(call: Call): number[] {
  const latest = performance.now() - call.startedAt > PID_ORDER_TRUSTED_MS ? undefined : latestPid();
  if (latest === undefined || latest < call.groupId) return listPids();
  const span = latest - call.groupId + 1;
  if (span > LONGEST_SPAN) return listPids().filter((pid) => pid >= call.groupId);
  return Array.from({ length: span }, (_, offset) => call.groupId + offset);
}

function latestPid(): number | undefined {
  try {
    return Number(readFileSync('/proc/loadavg', 'latin1').trim().split(' ').at(-1));
  } catch {
    return undefined;
  }
}
