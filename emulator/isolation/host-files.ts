import { existsSync, lstatSync, readlinkSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { CERTIFICATE_VARIABLES } from './instance-environment.js';

/**
 * The part of the developer's machine that instances see, read-only: programs and libraries, and of
 * `/etc` what programs need to run and nothing that holds a secret (`/etc/ssl/private`, `/etc/shadow`
 * and `/etc/ssh` are absent by not being listed).
 */
const SYSTEM_DIRECTORIES = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/opt'];

const ETC_ENTRIES = [
  'alternatives',
  'bash.bashrc',
  'ca-certificates',
  'ca-certificates.conf',
  'crypto-policies',
  'debian_version',
  'fonts',
  'group',
  'host.conf',
  'hosts',
  'inputrc',
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'locale.alias',
  'localtime',
  'lsb-release',
  'magic',
  'mime.types',
  'nsswitch.conf',
  'os-release',
  'passwd',
  'perl',
  'pki/ca-trust',
  'pki/tls/cert.pem',
  'pki/tls/certs',
  'profile',
  'profile.d',
  'protocols',
  'python3',
  'resolv.conf',
  'services',
  'shells',
  'ssl/cert.pem',
  'ssl/certs',
  'ssl/openssl.cnf',
  'terminfo',
  'timezone',
];

/** Where the emulator's own files appear inside an instance. */
const EMULATOR_ROOT = '/run/emulator';

export type NodeView = { node: string; args: string[] };

/** bubblewrap arguments that show the system's programs and settings. */
export function systemArgs(): string[] {
  const args: string[] = [];
  for (const directory of SYSTEM_DIRECTORIES) {
    const stats = lstatSync(directory, { throwIfNoEntry: false });
    if (stats?.isSymbolicLink()) args.push('--symlink', readlinkSync(directory), directory);
    else if (stats?.isDirectory()) args.push('--ro-bind', directory, directory);
  }
  args.push(...openDirectories('/etc', '/etc/pki', '/etc/pki/tls', '/etc/ssl'));
  for (const entry of ETC_ENTRIES) args.push('--ro-bind-try', `/etc/${entry}`, `/etc/${entry}`);
  return args;
}

/** Directories that every user inside may enter; bubblewrap would make them for root alone. */
function openDirectories(...directories: string[]): string[] {
  return directories.flatMap((directory) => ['--perms', '0755', '--dir', directory]);
}

/** bubblewrap arguments that show certificates which the environment names and the system part lacks. */
export function certificateArgs(env: Record<string, string>): string[] {
  return CERTIFICATE_VARIABLES.flatMap((name) => {
    const file = env[name];
    if (file === undefined || !path.isAbsolute(file) || isVisible(file)) return [];
    return ['--ro-bind-try', file, file];
  });
}

/**
 * Shows the Node that runs the emulator. Installed by a version manager it lies in the developer's
 * home, of which nothing but the program and its npm is shown.
 */
export function nodeView(): NodeView {
  const node = realpathSync(process.execPath);
  if (isVisible(node)) return { node, args: [] };
  const root = `${EMULATOR_ROOT}/node`;
  const directories = openDirectories(root, `${root}/bin`, `${root}/lib`, `${root}/lib/node_modules`);
  const args = [...directories, '--ro-bind', node, `${root}/bin/node`];
  const npm = path.resolve(path.dirname(node), '../lib/node_modules/npm');
  if (existsSync(npm)) {
    args.push('--ro-bind', npm, `${root}/lib/node_modules/npm`);
    for (const name of ['npm', 'npx']) {
      args.push('--symlink', `../lib/node_modules/npm/bin/${name}-cli.js`, `${root}/bin/${name}`);
    }
  }
  return { node: `${root}/bin/node`, args };
}

/** Shows the bundled instance, wherever the package is installed. */
export function entryView(entry: string): { entry: string; args: string[] } {
  const inside = `${EMULATOR_ROOT}/instance.mjs`;
  return { entry: inside, args: ['--ro-bind', entry, inside] };
}

function isVisible(file: string): boolean {
  return [...SYSTEM_DIRECTORIES, '/etc/ssl/certs'].some(
    (directory) => file === directory || file.startsWith(`${directory}/`),
  );
}
