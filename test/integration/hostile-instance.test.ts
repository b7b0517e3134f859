import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chown, mkdir, readFile, writeFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { socketsOf } from '../../emulator/tcp-sockets.js';
import { argvFor, MAIN, PROJECT_ROOT, startCli } from '../helpers/cli.js';
import {
  callerFor,
  describeModes,
  eventually,
  namespacesHold,
  randomId,
  stateOf,
  useTempDir,
} from '../helpers/emulator.js';

const NOBODY = 65534;
/** An ordinary user can read the build only where its directories let others in. */
const canBecomeNobody =
  process.getuid?.() === 0 &&
  spawnSync('setpriv', ['--reuid', String(NOBODY), '--clear-groups', 'cat', MAIN], { cwd: PROJECT_ROOT }).status === 0;

/** What commands do to their own instance costs them their instance, and nobody anything else. */
describeModes('an instance whose commands turn on it', (emulator, mode) => {
  async function start() {
    const caller = callerFor(emulator(), randomId(), 'A');
    await caller.init();
    await caller.bash('echo kept > file');
    return caller;
  }

  it('opens no debugger', async () => {
    const caller = await start();
    await caller.bash('kill -USR1 $PPID');
    expect((await caller.bash('cat file')).output).toBe('kept\n');
    const { pid } = (await stateOf(emulator(), caller.sessionId)).instance ?? { pid: 0 };
    const listening = readFileSync('/proc/net/tcp', 'latin1').matchAll(/ 0A (?:\S+ +){5}(\d+)/g);
    expect(socketsOf(pid, new Set([...listening].map(([, inode = '']) => inode)))).toEqual([]);
  });

  it('is started anew when its private directory is filled with what cannot be named', async () => {
    const caller = await start();
    const directory =
      mode === 'namespace' ? '/run/sandbox' : '"$(dirname "$(tr "\\0" "\\n" < /proc/$PPID/cmdline | grep http.sock)")"';
    const deep = 'd'.repeat(200);
    await caller.json('POST', '/api/tools/bash', {
      command: `cd ${directory} && for i in {1..60}; do mkdir ${deep} && cd ${deep}; done; kill -9 $PPID; sleep 60`,
    });
    expect((await caller.bash('cat file')).output).toBe('kept\n');
  });

  it('is started anew with variables that several requests set', async () => {
    const caller = await start();
    const variables = (name: string) =>
      Object.fromEntries(Array.from({ length: 7 }, (_, index) => [`${name}${index}`, 'x'.repeat(30_000)]));
    for (const name of ['A', 'B'])
      expect((await caller.json('PUT', '/api/session/env', variables(name))).status).toBe(200);
    process.kill((await stateOf(emulator(), caller.sessionId)).instance?.pid ?? 0, 'SIGKILL');
    expect((await caller.bash('echo ${#A0} ${#B6}')).output).toBe('30000 30000\n');
    expect(await caller.json('PUT', '/api/session/env', variables('C'))).toMatchObject({
      status: 400,
      body: { code: 'INVALID_REQUEST' },
    });
    expect((await caller.bash('echo ${#A0} ${#C0}')).output).toBe('30000 0\n');
  });

  it('does not use programs of its home for its own work', async () => {
    const caller = await start();
    await caller.bash(
      'mkdir -p ~/.local/bin && printf "#!/bin/sh\\nexit 1\\n" > ~/.local/bin/mkfifo && chmod +x ~/.local/bin/mkfifo',
    );
    process.kill((await stateOf(emulator(), caller.sessionId)).instance?.pid ?? 0, 'SIGKILL');
    expect((await caller.bash('cat file; rm ~/.local/bin/mkfifo')).output).toBe('kept\n');
  });

  it('that hangs makes /health answer 503 instead of waiting', async () => {
    const caller = await start();
    const { pid } = (await stateOf(emulator(), caller.sessionId)).instance ?? { pid: 0 };
    process.kill(pid, 'SIGSTOP');
    expect(await caller.json('GET', '/health')).toMatchObject({ status: 503, body: { code: 'SESSION_STARTING' } });
    process.kill(pid, 'SIGCONT');
    expect((await caller.bash('cat file')).output).toBe('kept\n');
  });

  it('answers session/init with 409 when a file is in the place of the conversation', async () => {
    const caller = callerFor(emulator(), randomId());
    await caller.bash('touch taken');
    const answer = await caller.json('POST', '/api/session/init', { conversationId: 'taken' });
    expect(answer).toMatchObject({ status: 409, body: { success: false, code: 'WORKSPACE_UNUSABLE' } });
  });
});

describe.runIf(namespacesHold)('files that cannot be put back', () => {
  const tempDir = useTempDir();

  async function startWith(name: string) {
    const cli = await startCli(['--data-dir', `${tempDir()}/${name}`]);
    const caller = callerFor(cli, randomId(), 'A');
    await caller.init();
    await caller.bash('echo work > file; echo tool > ~/tool');
    const { instance } = await stateOf(cli, caller.sessionId);
    return { cli, caller, pid: instance?.pid ?? 0, id: instance?.id ?? '', dataDir: `${tempDir()}/${name}` };
  }
  const readTrash = (dataDir: string, id: string, file: string) => readFile(`${dataDir}/trash/${id}/${file}`, 'utf8');

  it('since a command moved the workspace are kept in the trash', async () => {
    const { caller, pid, id, dataDir } = await startWith('workspace');
    await caller.bash('mv /tmp/workspace /tmp/elsewhere');
    process.kill(pid, 'SIGKILL');
    await eventually(
      'a new instance serves',
      async () => (await caller.json('POST', '/api/session/init')).status === 200,
    );
    expect(await readTrash(dataDir, id, `tmp/elsewhere/${caller.sessionId}/A/file`)).toBe('work\n');
  });

  it('since a command moved the home are kept in the trash', async () => {
    const { caller, pid, id, dataDir } = await startWith('home');
    await caller.bash('mv ~ /home/elsewhere');
    process.kill(pid, 'SIGKILL');
    expect((await caller.bash('cat file')).output).toBe('work\n');
    expect(await readTrash(dataDir, id, 'home/elsewhere/tool')).toBe('tool\n');
  });

  it('since their owner cannot be read are kept in the trash', async () => {
    const { cli, caller, id, dataDir } = await startWith('owner');
    cli.child.kill('SIGKILL');
    await cli.ended;
    await writeFile(`${dataDir}/instances/${id}/session.json`, '');
    await startCli(['--data-dir', dataDir]);
    expect(await readTrash(dataDir, id, `tmp/workspace/${caller.sessionId}/A/file`)).toBe('work\n');
  });
});

describe.runIf(namespacesHold && canBecomeNobody)('an emulator of an ordinary user', () => {
  const tempDir = useTempDir();

  it('brings back directories that commands have closed to their owner', async () => {
    const home = `${tempDir()}/home`;
    await mkdir(home);
    await chown(tempDir(), NOBODY, NOBODY);
    await chown(home, NOBODY, NOBODY);
    const program: [string, ...string[]] = [
      'setpriv',
      '--reuid',
      String(NOBODY),
      '--clear-groups',
      process.execPath,
      MAIN,
    ];
    const env = { ...process.env, HOME: home, TMPDIR: home };
    const start = () => startCli(['--data-dir', `${home}/data`, ...argvFor('namespace').slice(1)], { program, env });
    const first = await start();
    const caller = callerFor(first, randomId(), 'A');
    await caller.init();
    await caller.bash('echo kept > file; cd /tmp && chmod 555 workspace/* && chmod 000 workspace && chmod 000 /tmp');
    process.kill((await stateOf(first, caller.sessionId)).instance?.pid ?? 0, 'SIGKILL');
    expect((await caller.bash('cat file; chmod 555 ..; chmod 000 /tmp/workspace')).output).toBe('kept\n');
    first.child.kill('SIGKILL');
    await first.ended;
    const second = await start();
    expect((await callerFor(second, caller.sessionId, 'A').bash('cat file')).output).toBe('kept\n');
  });
});
