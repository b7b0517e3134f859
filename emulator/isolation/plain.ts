import type { ChildProcess } from 'node:child_process';
import type { Duplex } from 'node:stream';
import { sendSignal } from '../processes.js';
import { coverInherited } from './inherited-descriptors.js';
import { INSTANCE_VARIABLE } from './instance-environment.js';
import type { Launcher } from './launcher.js';
import { endLeftovers } from './leftovers.js';
import { spawnProgram } from './spawn-program.js';

/**
 * Mode none: instances are ordinary child processes with the developer's own rights. What keeps them
 * apart is their directory and their environment variables, nothing else.
 *
 * @param entry Path of the bundled instance.
 */
export function createPlainLauncher(entry: string): Launcher {
  return {
    mode: 'none',
    view: (directories) => ({ ...directories, node: process.execPath, entry }),
    launch(_directories, [file = '', ...args], env) {
      const { child, exited } = spawnProgram(file, args, {
        env,
        cwd: '/',
        detached: true,
        stdio: ['ignore', 'pipe', 'pipe', 'pipe', ...coverInherited(4)],
      });
      return {
        child,
        channel: child.stdio[3] as Duplex, // made by the last 'pipe' above
        pid: async () => child.pid,
        kill: () => killGroup(child),
        ended: untilEnded(exited, env[INSTANCE_VARIABLE]),
      };
    },
  };
}

function killGroup(child: ChildProcess): void {
  if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
    sendSignal(-child.pid, 'SIGKILL');
}

async function untilEnded(exited: Promise<void>, instanceId: string | undefined): Promise<void> {
  await exited;
  if (instanceId !== undefined) await endLeftovers(instanceId);
}
