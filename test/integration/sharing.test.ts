import { lstat } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { initSandboxWorkspace, SandboxInstance } from '../../client/index.js';
import { callerFor, describeModes, randomId } from '../helpers/emulator.js';

/** The design document, line by line: what conversations of one environment share and environments do not. */
describeModes('conversations of one environment', (emulator, mode) => {
  const pair = async () => {
    const env = randomId();
    const [a, b] = [callerFor(emulator(), env, 'A'), callerFor(emulator(), env, 'B')];
    await a.init();
    await b.init();
    return { env, a, b };
  };

  it('lets B read a file of A by ../A and by its absolute path', async () => {
    const { env, a, b } = await pair();
    await a.bash('echo from A > file.txt');
    expect((await b.bash('cat ../A/file.txt')).output).toBe('from A\n');
    expect((await b.bash(`cat /tmp/workspace/${env}/A/file.txt`)).output).toBe('from A\n');
  });

  it('lets B change a file of A, and A sees it', async () => {
    const { a, b } = await pair();
    await a.bash('echo one > file.txt');
    expect((await b.bash('echo two > ../A/file.txt')).exitCode).toBe(0);
    expect((await a.bash('cat file.txt')).output).toBe('two\n');
  });

  it('works in /tmp/workspace/<envId>/<conversationId>', async () => {
    const { env, a } = await pair();
    expect((await a.bash('pwd')).output).toBe(`/tmp/workspace/${env}/A\n`);
    expect(await a.init()).toMatchObject({ workspace: `/tmp/workspace/${env}/A` });
  });

  it('writes ./new.js into the own conversation', async () => {
    const { env, a, b } = await pair();
    await a.bash('echo 1 > ./new.js');
    expect((await a.bash(`cat /tmp/workspace/${env}/A/new.js`)).output).toBe('1\n');
    expect((await b.bash('ls')).output).toBe('');
  });

  it('lists the siblings with ls .., and with ls ../../ from a subdirectory', async () => {
    const { a } = await pair();
    expect((await a.bash('ls ..')).output).toBe('A\nB\n');
    expect((await a.bash('mkdir src && cd src && ls ../../')).output).toBe('A\nB\n');
  });

  it.runIf(mode === 'namespace')('lists only this environment with ls ../../ from the workspace root', async () => {
    const { env, a } = await pair();
    await callerFor(emulator(), randomId(), 'C').init();
    expect((await a.bash('ls ../../')).output).toBe(`${env}\n`);
  });

  it.runIf(mode === 'namespace')('finds no path of another environment', async () => {
    const { a } = await pair();
    const other = callerFor(emulator(), randomId('other'), 'C');
    const { workspace } = await other.init();
    await other.bash('echo secret > file.txt');
    const attempt = await a.bash(`cat ${workspace}/file.txt`);
    expect(attempt).toMatchObject({ exitCode: 1, output: `cat: ${workspace}/file.txt: No such file or directory\n` });
  });

  it('runs in one process for all conversations of the environment', async () => {
    const { a, b } = await pair();
    const [first, second] = await Promise.all([a.request('/health'), b.request('/health')]);
    expect(first.headers.get('x-emulator-instance')).toBe(second.headers.get('x-emulator-instance'));
    const other = await callerFor(emulator(), randomId(), 'A').request('/health');
    expect(other.headers.get('x-emulator-instance')).not.toBe(first.headers.get('x-emulator-instance'));
  });

  it("makes a conversation's directory by the client's mkdir -p, with exit code 0", async () => {
    const envId = randomId();
    const sandbox = new SandboxInstance({
      target: { kind: 'emulator', url: emulator().url },
      envId,
      conversationId: 'fresh',
    });
    const workspace = await initSandboxWorkspace(sandbox, { envId, secretId: 'id', secretKey: 'key' }, 'fresh');
    expect(workspace).toBe(`/tmp/workspace/${envId}/fresh`);
    expect(await sandbox.bash(`test -d ${workspace} && pwd`)).toMatchObject({ exitCode: 0, output: `${workspace}\n` });
    const state = (await (await fetch(`${emulator().url}/_emulator/state`)).json()) as {
      sessions: Array<{ sessionId: string; conversations: Array<{ hostPath: string }> }>;
    };
    const hostPath = state.sessions.find((session) => session.sessionId === envId)?.conversations[0]?.hostPath ?? '';
    expect((await lstat(hostPath)).isDirectory()).toBe(true);
  });

  it('runs a command of a conversation without a directory in the session root, so that mkdir -p can make it', async () => {
    const env = randomId();
    const late = callerFor(emulator(), env, 'late');
    expect((await late.bash('pwd')).output).toBe(`/tmp/workspace/${env}\n`);
    await late.bash(`mkdir -p "/tmp/workspace/${env}/late"`);
    expect((await late.bash('pwd')).output).toBe(`/tmp/workspace/${env}/late\n`);
  });

  it('keeps a deleted conversation deleted', async () => {
    const { env, a, b } = await pair();
    await a.bash(`rm -rf "/tmp/workspace/${env}/A"`);
    expect((await a.bash('pwd')).output).toBe(`/tmp/workspace/${env}\n`);
    expect((await b.bash('ls ..')).output).toBe('B\n');
  });

  it('isolates by user with a session envId:userId', async () => {
    const env = randomId();
    const [anna, bert] = [callerFor(emulator(), `${env}:anna`, 'A'), callerFor(emulator(), `${env}:bert`, 'A')];
    expect(await anna.init()).toMatchObject({ workspace: `/tmp/workspace/${env}:anna/A` });
    await bert.init();
    await anna.bash('echo hers > file.txt');
    expect((await anna.bash('cat file.txt')).output).toBe('hers\n');
    expect((await bert.bash('ls')).output).toBe('');
  });

  it('takes the session root as workspace when no conversation is named, as before the redesign', async () => {
    const conversation = randomId('conversation');
    const before = callerFor(emulator(), conversation);
    expect(await before.init()).toMatchObject({ workspace: `/tmp/workspace/${conversation}` });
    expect((await before.bash('pwd')).output).toBe(`/tmp/workspace/${conversation}\n`);
  });

  it('takes the conversation from X-Scope-Id, and from the body', async () => {
    const env = randomId();
    const plain = callerFor(emulator(), env);
    const scoped = await plain.json('POST', '/api/session/init', {}, { 'X-Scope-Id': 'scoped' });
    expect(scoped.body).toMatchObject({ workspace: `/tmp/workspace/${env}/scoped` });
    const named = await plain.json('POST', '/api/session/init', { conversationId: 'named' });
    expect(named.body).toMatchObject({ workspace: `/tmp/workspace/${env}/named` });
    const command = await plain.json('POST', '/api/tools/bash', { command: 'pwd', conversationId: 'named' });
    expect(command.body).toMatchObject({ result: { output: `/tmp/workspace/${env}/named\n` } });
  });

  it('keeps two functions with the same session id apart, and serves the default one at the root too', async () => {
    const env = randomId();
    const one = callerFor(emulator(), env, 'A', '/v1/functions/sandbox-shared');
    const two = callerFor(emulator(), env, 'A', '/v1/functions/another');
    const root = callerFor(emulator(), env, 'A');
    await Promise.all([one.init(), two.init()]);
    await one.bash('echo one > file.txt');
    expect((await root.bash('cat file.txt')).output).toBe('one\n');
    expect((await two.bash('ls')).output).toBe('');
  });
});

describeModes('variables of a session', (emulator) => {
  it('are the same for all conversations, and the own value is preferred', async () => {
    const env = randomId();
    const [a, b, c] = ['A', 'B', 'C'].map((id) => callerFor(emulator(), env, id));
    await a?.init({ TENCENTCLOUD_SECRETID: 'first', WORKSPACE_FOLDER_PATHS: '/a' });
    await b?.init({ TENCENTCLOUD_SECRETID: 'second', WORKSPACE_FOLDER_PATHS: '/b' });
    const show = 'echo $TENCENTCLOUD_SECRETID $WORKSPACE_FOLDER_PATHS';
    expect((await a?.bash(show))?.output).toBe('first /a\n');
    expect((await b?.bash(show))?.output).toBe('second /b\n');
    expect((await c?.bash(show))?.output).toBe('second /b\n');
  });

  it('can be set by PUT /api/session/env with the conversation in the body', async () => {
    const env = randomId();
    const plain = callerFor(emulator(), env);
    const answer = await plain.json('PUT', '/api/session/env', {
      conversationId: 'A',
      CLOUDBASE_ENV_ID: 'x',
      TENCENTCLOUD_SESSIONTOKEN: '',
      PATH: '/evil',
      LD_PRELOAD: '/evil.so',
    });
    expect(answer).toMatchObject({
      status: 200,
      body: {
        success: true,
        result: { set: ['CLOUDBASE_ENV_ID', 'TENCENTCLOUD_SESSIONTOKEN'], ignored: ['PATH', 'LD_PRELOAD'] },
      },
    });
    const seen = await callerFor(emulator(), env, 'A').bash(
      'echo "$CLOUDBASE_ENV_ID|${TENCENTCLOUD_SESSIONTOKEN-unset}|$conversationId|$PATH|$LD_PRELOAD"',
    );
    expect(seen.output).toMatch(/^x\|\|\|[^|]*\/usr\/bin[^|]*\|\n$/);
  });
});
