import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { execa } from 'execa';
import { parse as parseIni } from 'ini';

/** Marks every process of an instance, so that what an instance leaves behind in mode none can be found. */
export const INSTANCE_VARIABLE = 'SCF_SANDBOX_INSTANCE';

const PROXY_VARIABLES = [
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
  'ALL_PROXY',
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'all_proxy',
];

/** Variables that name a file or directory of certificates; what they name is made visible too. */
export const CERTIFICATE_VARIABLES = [
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'CURL_CA_BUNDLE',
  'REQUESTS_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  'PIP_CERT',
];

const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Where an instance finds its home, its temporary files and the Node that it runs on. */
export type InstancePaths = { home: string; nodeDirectory: string; tmp?: string };

/** What is taken over from the developer's machine, read once at start. */
export type HostSettings = {
  env: Record<string, string>;
  /** Lines for `~/.npmrc`: registries and how to reach them, never a token. */
  npmrc: string;
};

/**
 * Reads what commands need of the developer's settings: git identity, proxies, certificates, the npm
 * registry and the variables named by `--pass-env`. Nothing else of the environment reaches an
 * instance.
 */
export async function readHostSettings(env: NodeJS.ProcessEnv, passEnv: readonly string[]): Promise<HostSettings> {
  const names = [...PROXY_VARIABLES, ...CERTIFICATE_VARIABLES, 'TZ', ...passEnv];
  const passed = Object.fromEntries(
    names.flatMap((name) => {
      const value = env[name];
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
  const [identity, npmrc] = await Promise.all([readGitIdentity(env), readNpmRegistrySettings(env)]);
  return { env: { ...passed, ...identity }, npmrc };
}

/** Complete environment of an instance, and with it of the commands that run there. */
export function instanceEnvironment(
  host: HostSettings,
  paths: InstancePaths,
  instanceId: string,
): Record<string, string> {
  return {
    LANG: 'C.UTF-8',
    TERM: 'xterm-256color',
    USER: 'sandbox',
    LOGNAME: 'sandbox',
    SHELL: '/bin/bash',
    ...host.env,
    HOME: paths.home,
    PATH: commandPath(paths),
    NPM_CONFIG_PREFIX: `${paths.home}/.local`,
    NPM_CONFIG_UPDATE_NOTIFIER: 'false',
    PYTHONUSERBASE: `${paths.home}/.local`,
    ...(paths.tmp === undefined ? {} : { TMPDIR: paths.tmp }),
    [INSTANCE_VARIABLE]: instanceId,
  };
}

/**
 * Files that a new home begins with. A login shell reads `/etc/profile`, which sets another PATH on
 * most systems; the home's own profile sets it back.
 */
export function homeFiles(host: HostSettings, paths: InstancePaths): Record<string, string> {
  const profile = `export PATH=${quoteForShell(commandPath(paths))}\n`;
  return { '.profile': profile, '.bash_profile': profile, '.npmrc': host.npmrc };
}

function commandPath(paths: InstancePaths): string {
  const directories = [`${paths.home}/.local/bin`, paths.nodeDirectory, ...SYSTEM_PATH.split(':')];
  return [...new Set(directories)].join(':');
}

function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

async function readGitIdentity(env: NodeJS.ProcessEnv): Promise<Record<string, string>> {
  const configured = async (key: string) => {
    const { stdout, exitCode } = await execa('git', ['config', '--global', key], {
      reject: false,
      env,
      extendEnv: false,
    });
    return exitCode === 0 && stdout !== '' ? stdout : undefined;
  };
  const [name, email] = await Promise.all([configured('user.name'), configured('user.email')]);
  const author = { name: name ?? 'SCF Sandbox', email: email ?? 'sandbox@localhost' };
  return {
    GIT_AUTHOR_NAME: env.GIT_AUTHOR_NAME ?? author.name,
    GIT_AUTHOR_EMAIL: env.GIT_AUTHOR_EMAIL ?? author.email,
    GIT_COMMITTER_NAME: env.GIT_COMMITTER_NAME ?? author.name,
    GIT_COMMITTER_EMAIL: env.GIT_COMMITTER_EMAIL ?? author.email,
  };
}

const NPM_SETTINGS = new Set(['registry', 'strict-ssl', 'proxy', 'https-proxy', 'noproxy', 'cafile']);

async function readNpmRegistrySettings(env: NodeJS.ProcessEnv): Promise<string> {
  const file = env.NPM_CONFIG_USERCONFIG ?? env.npm_config_userconfig ?? path.join(homedir(), '.npmrc');
  const settings = parseIni(await readFile(file, 'utf8').catch(() => ''));
  return Object.entries(settings)
    .filter(
      ([name, value]) => typeof value !== 'object' && (NPM_SETTINGS.has(name) || /^@[\w.-]+:registry$/.test(name)),
    )
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}
