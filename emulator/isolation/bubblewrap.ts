import type { Duplex, Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { isSameRunning, readProcessStat, snapshotProcesses } from '../processes.js';
import { certificateArgs, entryView, nodeView, systemArgs } from './host-files.js';
import { coverInherited } from './inherited-descriptors.js';
import type { InstanceDirectories, Launcher } from './launcher.js';
import { spawnProgram } from './spawn-program.js';

const HOME = '/home/sandbox';
const PRIVATE = '/run/sandbox';

/** What root inside still needs to own files and to signal its children; all else is dropped. */
const ROOT_CAPABILITIES = ['CAP_CHOWN', 'CAP_DAC_OVERRIDE', 'CAP_FOWNER', 'CAP_SETUID', 'CAP_SETGID', 'CAP_KILL'];

/**
 * Namespace mode: an instance sees an allow-list of the system read-only, a `/tmp`, a home and a
 * process table of its own, and nothing else of the machine. It ends with the emulator.
 *
 * @param bwrap Path of the bubblewrap program.
 * @param entry Path of the bundled instance on the host.
 */
export function createBubblewrapLauncher(bwrap: string, entry: string): Launcher {
  const node = nodeView();
  const bundle = entryView(entry);
  const fixedArgs = [...systemArgs(), ...protectionArgs(), ...node.args, ...bundle.args];

  return {
    mode: 'namespace',
    view: () => ({ home: HOME, private: PRIVATE, node: node.node, entry: bundle.entry }),

    launch(directories, program, env) {
      const args = [...fixedArgs, ...instanceArgs(directories), ...certificateArgs(env), '--remount-ro', '/'];
      // Arguments travel by descriptor: the command line of process 1 is readable inside and would show host paths.
      const { child, exited } = spawnProgram(bwrap, ['--args', '4', '--info-fd', '5', '--', ...program], {
        env,
        cwd: '/',
        stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe', 'pipe', ...coverInherited(6)],
      });
      // Sockets of this process, made by the 'pipe' entries above.
      const pipes: ReadonlyArray<Writable | Readable | null | undefined> = child.stdio;
      const channel = pipes[3] as Duplex;
      const argsPipe = pipes[4] as Writable;
      const infoPipe = pipes[5] as Readable;
      argsPipe.on('error', () => {});
      argsPipe.end(args.map((arg) => `${arg}\0`).join(''));
      const firstPid = readFirstPid(infoPipe);
      return {
        child,
        channel,
        pid: async () => childOf(await firstPid),
        kill: () => void child.kill('SIGKILL'),
        ended: untilEnded(exited, firstPid),
      };
    },
  };
}

function protectionArgs(): string[] {
  const asRoot = process.getuid?.() === 0;
  return [
    '--unshare-pid',
    '--unshare-ipc',
    '--unshare-uts',
    '--hostname',
    'sandbox',
    '--die-with-parent',
    '--new-session',
    '--cap-drop',
    'ALL',
    ...(asRoot ? ROOT_CAPABILITIES.flatMap((capability) => ['--cap-add', capability]) : []),
    '--dev',
    '/dev',
    '--proc',
    '/proc',
    // Root inside could otherwise write the whole machine's settings, core_pattern among them.
    ...['sys', 'sysrq-trigger', 'irq', 'bus'].flatMap((name) => ['--ro-bind-try', `/proc/${name}`, `/proc/${name}`]),
    ...['/run', '/home', '/root', '/var'].flatMap((directory) => ['--tmpfs', directory]),
    '--dir',
    '/var/tmp',
    ...['/run/lock', '/run/emulator'].flatMap((directory) => ['--perms', '0755', '--dir', directory]),
  ];
}

function instanceArgs(directories: InstanceDirectories): string[] {
  return [
    ...['--bind', directories.tmp, '/tmp'],
    ...['--bind', directories.home, '/home'],
    ...['--bind', directories.private, PRIVATE],
  ];
}

/** Pid on the host of the namespace's first process, which is bubblewrap itself. */
async function readFirstPid(info: Readable): Promise<number | undefined> {
  const pid = /"child-pid":\s*(\d+)/.exec(await text(info).catch(() => ''))?.[1];
  return pid === undefined ? undefined : Number(pid);
}

/**
 * The kernel ends everything in a pid namespace before its first process is gone, and that one follows
 * the bubblewrap outside, which may be killed without having waited for it.
 */
async function untilEnded(exited: Promise<void>, firstPid: Promise<number | undefined>): Promise<void> {
  const pid = await firstPid;
  const first = pid === undefined ? undefined : readProcessStat(pid);
  await exited;
  while (first && isSameRunning(first)) await delay(2);
}

function childOf(parentPid: number | undefined): number | undefined {
  for (const { pid, parentPid: parent } of snapshotProcesses().values()) if (parent === parentPid) return pid;
  return undefined;
}
