import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, rmdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { createEmulator } from '../../dist/emulator/index.js';
import { isRunning } from '../../emulator/processes.js';
import {
  type Caller,
  callerFor,
  eventually,
  optionsFor,
  randomId,
  stateOf,
  useEmulator,
  useTempDir,
} from '../helpers/emulator.js';
import { makeNeedle, namesFilesWith } from '../helpers/needle.js';
import { pidsWithArgument } from '../helpers/processes.js';

const WORKSPACES = '/tmp/workspace';

/** Keeps `/tmp/workspace` from being removed by other emulators while these tests make entries in it. */
const keeper = path.join(WORKSPACES, randomId('keeper'));
beforeAll(() => mkdir(keeper, { recursive: true }));
afterAll(async () => {
  await rmdir(keeper);
  await rmdir(WORKSPACES).catch(() => {}); // others have their workspaces in it
});

type Setting = { attacker: Caller; victim: Caller; sleepTime: string; hostFile: string };
type Row = { vector: string; holds: boolean; reaches: (setting: Setting) => Promise<boolean> };

const secret = makeNeedle();
const search = namesFilesWith(secret);
const workspaceOf = ({ sessionId, conversationId }: Caller) => `${WORKSPACES}/${sessionId}/${conversationId}`;
const prints = async (caller: Caller, command: string) => (await caller.bash(command)).output !== '';

const ROWS: Row[] = [
  {
    vector: 'a relative path stays in the own directory',
    holds: true,
    async reaches({ attacker, victim }) {
      await attacker.bash('echo mine > relative.txt');
      return (await attacker.bash('ls')).output !== 'relative.txt\n' || prints(victim, 'ls relative.txt 2>/dev/null');
    },
  },
  {
    vector: "another environment's variables are not in env",
    holds: true,
    reaches: ({ attacker }) => prints(attacker, `env | grep '${secret.pattern}'`),
  },
  {
    vector: "the emulator's variables are not in env",
    holds: true,
    reaches: ({ attacker }) => prints(attacker, 'printenv PLANTED_ON_HOST'),
  },
  {
    vector: 'HOME is the own one',
    holds: true,
    async reaches({ attacker, victim }) {
      return (await attacker.bash('echo ~')).output === (await victim.bash('echo ~')).output;
    },
  },
  {
    vector: 'mktemp makes files in a directory of its own',
    holds: true,
    async reaches({ attacker, victim }) {
      const { output } = await victim.bash('mktemp');
      return prints(attacker, `ls -A "\${TMPDIR:-/tmp}" | grep -xF '${path.basename(output.trim())}'`);
    },
  },
  {
    vector: 'reading another environment by its path',
    holds: false,
    reaches: ({ attacker, victim }) => prints(attacker, `${search} ${workspaceOf(victim)}/secret`),
  },
  {
    vector: 'reading another environment by a relative path',
    holds: false,
    reaches: ({ attacker, victim }) => prints(attacker, `${search} ../../${victim.sessionId}/V/secret`),
  },
  {
    vector: 'writing into another environment',
    holds: false,
    async reaches({ attacker, victim }) {
      await attacker.bash(`echo planted > ${workspaceOf(victim)}/planted`);
      return prints(victim, 'ls planted 2>/dev/null');
    },
  },
  {
    vector: "seeing another environment's processes",
    holds: false,
    reaches: ({ attacker, sleepTime }) =>
      prints(attacker, `cat /proc/[0-9]*/cmdline 2>/dev/null | grep -ao '[s]leep.${sleepTime}'`),
  },
  {
    vector: "reading the variables of another environment's processes",
    holds: false,
    reaches: ({ attacker }) => prints(attacker, `${search} /proc/[0-9]*/environ`),
  },
  {
    vector: 'reading files of the machine',
    holds: false,
    reaches: ({ attacker, hostFile }) => prints(attacker, `${search} ${hostFile}`),
  },
  {
    vector: 'writing files of the machine',
    holds: false,
    async reaches({ attacker, hostFile }) {
      await attacker.bash(`echo planted > ${hostFile}-new`);
      return existsSync(`${hostFile}-new`);
    },
  },
  {
    vector: "sharing the machine's /tmp",
    holds: false,
    reaches: async ({ attacker, hostFile }) => prints(attacker, `ls -d ${path.dirname(hostFile)} 2>/dev/null`),
  },
];

describe.runIf(process.platform === 'linux')('mode none', () => {
  vi.stubEnv('PLANTED_ON_HOST', 'planted');
  const emulator = useEmulator('none');
  const directory = useTempDir();
  let setting: Setting;

  beforeAll(async () => {
    const hostFile = path.join(directory(), 'file');
    await writeFile(hostFile, secret.value);
    const attacker = callerFor(emulator(), randomId('attacker'), 'A');
    const victim = callerFor(emulator(), randomId('victim'), 'V');
    const sleepTime = `3600.${Date.now()}`;
    await attacker.init();
    await victim.init({ TENCENTCLOUD_SECRETKEY: secret.value });
    await victim.bash(`echo ${secret.value} > secret; sleep ${sleepTime} &`);
    setting = { attacker, victim, sleepTime, hostFile };
  });
  afterAll(() => vi.unstubAllEnvs());

  const titled = ROWS.map((row) => ({
    ...row,
    title: `${row.holds ? 'holds' : 'does not hold against'}: ${row.vector}`,
  }));
  it.each(titled)('$title', async ({ holds, reaches }) => {
    expect(await reaches(setting)).toBe(!holds);
  });
});

/** Runs one emulator for one call of one session, and resolves once it is closed. */
async function runOnce(sessionId: string, ephemeral: boolean, dataDir: string): Promise<string> {
  const emulator = await createEmulator({ ...optionsFor('none'), ephemeral, dataDir });
  try {
    const caller = callerFor(emulator, sessionId, 'A');
    await caller.init();
    return (await caller.bash('echo new > file.txt; cat ../kept.txt 2>/dev/null')).output;
  } finally {
    await emulator.close();
  }
}

describe('the workspace in mode none', () => {
  const directory = useTempDir();
  /** A workspace directory on this machine that no other test has; gone after the test. */
  const makeId = () => {
    const id = randomId();
    onTestFinished(() => rm(path.join(WORKSPACES, id), { recursive: true, force: true }));
    return { id, root: path.join(WORKSPACES, id) };
  };
  const dataDir = (id: string) => path.join(directory(), id);

  it.each([true, false])('is adopted where it exists and kept after the end (ephemeral: %s)', async (ephemeral) => {
    const { id, root } = makeId();
    await mkdir(root);
    await writeFile(path.join(root, 'kept.txt'), 'kept\n');
    expect(await runOnce(id, ephemeral, dataDir(id))).toBe('kept\n');
    expect(await readFile(path.join(root, 'kept.txt'), 'utf8')).toBe('kept\n');
    expect(await readFile(path.join(root, 'A/file.txt'), 'utf8')).toBe('new\n');
  });

  it('is removed after the end when the emulator made it and is ephemeral', async () => {
    const { id, root } = makeId();
    await runOnce(id, true, dataDir(id));
    expect(existsSync(root)).toBe(false);
  });

  it('is kept after the end when the emulator made it and is not ephemeral', async () => {
    const { id, root } = makeId();
    await runOnce(id, false, dataDir(id));
    expect(await readFile(path.join(root, 'A/file.txt'), 'utf8')).toBe('new\n');
  });

  it.each([
    ['a link to a directory', (root: string, target: string) => symlink(target, root)],
    ['a link to nothing', (root: string, target: string) => symlink(`${target}-none`, root)],
    ['a file', (root: string) => writeFile(root, 'content')],
  ])('makes calls answer 443 where there is %s, which is left alone', async (_kind, plant) => {
    const { id, root } = makeId();
    const target = path.join(directory(), randomId('target'));
    await mkdir(target);
    await plant(root, target);
    const emulator = await createEmulator(optionsFor('none'));
    try {
      const caller = callerFor(emulator, id, 'A');
      const calls = [
        caller.request('/api/session/init', {
          method: 'POST',
          body: '{}',
          headers: { 'Content-Type': 'application/json' },
        }),
        caller.request('/health'),
      ];
      for (const answer of await Promise.all(calls)) {
        expect({ status: answer.status, body: await answer.text() }).toEqual({ status: 443, body: '' });
        expect(answer.headers.get('x-emulator-error')).toEqual(expect.any(String));
      }
    } finally {
      await emulator.close();
    }
    expect(await readdir(target)).toEqual([]);
    expect(existsSync(`${target}-none`)).toBe(false);
    expect(await readdir(WORKSPACES)).toContain(id);
  });
});

describe('children in the background in mode none', () => {
  const start = async () => {
    const emulator = await createEmulator(optionsFor('none'));
    onTestFinished(() => emulator.close());
    const caller = callerFor(emulator, randomId(), 'A');
    const sleepTime = `3600.${Date.now()}`;
    await caller.bash(
      `nohup sleep ${sleepTime} >/dev/null & setsid sleep ${sleepTime} & (setsid sleep ${sleepTime} &)`,
    );
    await eventually('all run', () => pidsWithArgument(sleepTime).length === 3);
    return { emulator, caller, pids: pidsWithArgument(sleepTime) };
  };

  it('are gone after close', async () => {
    const { emulator, pids } = await start();
    await emulator.close();
    expect(pids.filter(isRunning)).toEqual([]);
  });

  it('are gone when the instance is killed', async () => {
    const { emulator, caller, pids } = await start();
    const { instance } = await stateOf(emulator, caller.sessionId);
    if (!instance || instance.pid <= 1) throw new Error('the session has no instance');
    process.kill(instance.pid, 'SIGKILL');
    await eventually('none is left', () => !pids.some(isRunning));
  });
});
