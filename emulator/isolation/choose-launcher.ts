import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import { createBubblewrapLauncher } from './bubblewrap.js';
import type { Launcher } from './launcher.js';
import { createPlainLauncher } from './plain.js';
import { probe } from './probe.js';

export type IsolationRequest = 'auto' | 'require' | 'none';

export type LauncherChoice = {
  launcher: Launcher;
  /** Why instances are not isolated and what to do about it; undefined in namespace mode. */
  warning?: string;
};

const NOT_ENFORCED = 'Environments can reach each other and your files.';

/**
 * Chooses how instances are isolated. The choice rests on what a probe could not do.
 *
 * @param entry Path of the bundled instance.
 * @param scratch Existing directory for the probe.
 * @throws Error when isolation is required and cannot be had.
 */
export async function chooseLauncher(
  request: IsolationRequest,
  entry: string,
  scratch: string,
): Promise<LauncherChoice> {
  if (request === 'none') {
    return { launcher: createPlainLauncher(entry), warning: `Isolation is off by option. ${NOT_ENFORCED}` };
  }
  const bwrap = findProgram('bwrap');
  const problem = bwrap === undefined ? missingBubblewrap() : await tryNamespaces(bwrap, entry, scratch);
  if (typeof problem !== 'string') return { launcher: problem };
  if (request === 'require') throw new Error(`Isolation is required but not to be had: ${problem}`);
  return { launcher: createPlainLauncher(entry), warning: `Isolation is off: ${problem} ${NOT_ENFORCED}` };
}

async function tryNamespaces(bwrap: string, entry: string, scratch: string): Promise<Launcher | string> {
  const launcher = createBubblewrapLauncher(bwrap, entry);
  const result = await probe(launcher, scratch);
  if (result.holds) return launcher;
  return `bubblewrap is installed, but does not hold here (${result.reasons.slice(0, 3).join('; ')}).`;
}

function missingBubblewrap(): string {
  return process.platform === 'linux'
    ? 'bubblewrap is not installed. Install it with "apt-get install bubblewrap" (Debian, Ubuntu) or "dnf install bubblewrap" (Fedora).'
    : `${process.platform} has no namespaces; run the emulator on Linux to isolate environments.`;
}

function findProgram(name: string): string | undefined {
  const directories = (process.env.PATH ?? '').split(path.delimiter);
  return directories.map((directory) => path.join(directory, name)).find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return path.isAbsolute(file);
  } catch {
    return false;
  }
}
