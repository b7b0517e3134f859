import { setTimeout as delay } from 'node:timers/promises';
import { hasEnvironmentEntry, hasEnvironmentVariable, listPids, readProcessStat, sendSignal } from '../processes.js';
import { INSTANCE_VARIABLE } from './instance-environment.js';

/** Every process that carries the marker of an instance in its environment. */
function findLeftovers(instanceId: string): number[] {
  return listPids().filter((pid) => hasEnvironmentEntry(pid, `${INSTANCE_VARIABLE}=${instanceId}`));
}

/** True when the process, or one that it descends from, carries the marker of any instance. */
export function isMarked(pid: number): boolean {
  for (let current = pid; current > 1; current = readProcessStat(current)?.parentPid ?? 0) {
    if (hasEnvironmentVariable(current, INSTANCE_VARIABLE)) return true;
  }
  return false;
}

/**
 * Ends every process that an instance left behind, found by the marker in its environment, and resolves
 * when none is left. Commands lead process groups of their own, so no group holds them all.
 */
export async function endLeftovers(instanceId: string): Promise<void> {
  for (let pass = 0; pass < 100; pass++) {
    const left = findLeftovers(instanceId);
    if (left.length === 0) return;
    for (const pid of left) sendSignal(pid, 'SIGKILL');
    await delay(5);
  }
}
