import { readFile } from 'node:fs/promises';
import { expect, it, onTestFinished } from 'vitest';
import { listen, readState } from '../../fixtures/demo/emulator-views.js';
import { callerFor, describeModes, eventually, randomId } from '../helpers/emulator.js';

describeModes('GET /_emulator/state', (emulator, mode) => {
  it('tells url, modes, data directory and of each session its instance, memory, conversations and host paths', async () => {
    const env = randomId();
    const caller = callerFor(emulator(), env, 'A');
    await caller.init();
    await caller.bash('echo hi > file');
    const state = (await (await fetch(`${emulator().url}/_emulator/state`)).json()) as Record<string, unknown> & {
      sessions: Array<Record<string, unknown>>;
    };
    expect(state).toMatchObject({
      url: emulator().url,
      isolation: mode,
      network: 'shared',
      dataDir: emulator().dataDir,
      auth: 'lenient',
    });
    const session = state.sessions.find(({ sessionId }) => sessionId === env);
    expect(session).toMatchObject({
      functionName: 'sandbox-shared',
      state: 'active',
      generations: 1,
      instance: { id: expect.any(String), pid: expect.any(Number), processes: 1, memoryBytes: expect.any(Number) },
      conversations: [{ conversationId: 'A', workspace: `/tmp/workspace/${env}/A`, hostPath: expect.any(String) }],
    });
    const [conversation] = (session?.conversations ?? []) as Array<{ hostPath: string }>;
    expect(await readFile(`${conversation?.hostPath}/file`, 'utf8')).toBe('hi\n');
  });
});

describeModes('GET /_emulator/events', (emulator) => {
  it('tells of requests, of sessions and of files while somebody listens', async () => {
    const env = randomId();
    const caller = callerFor(emulator(), env, 'A');
    await caller.init();
    const events = await listen(emulator().url);
    onTestFinished(() => events.close());
    const other = randomId();
    await callerFor(emulator(), other, 'B').init();
    await events.next('session', (event) => event.sessionId === other && event.state === 'active');
    await events.next('file', (event) => event.sessionId === env && event.change === 'ready');
    // Events are hints: what happens while a directory is only being discovered may go untold, so it is repeated.
    const repeat = async (path: string, change: string, command: string) => {
      let isTold = false;
      const told = events
        .next('file', (event) => event.path === path && event.change === change)
        .finally(() => {
          isTold = true;
        });
      while (!isTold) await caller.bash(command);
      await told;
    };
    await repeat('A/file', 'add', 'rm -f file; echo hi > file; ln -sfn /etc linked');
    const request = await events.next('request', (event) => event.sessionId === env && event.tool === 'bash');
    expect(request).toMatchObject({
      conversationId: 'A',
      method: 'POST',
      path: '/api/tools/bash',
      status: 200,
      exitCode: 0,
      timedOut: false,
    });
    await repeat('A/sub/deep', 'add', 'rm -rf sub; mkdir sub; echo deep > sub/deep');
    await repeat('A/file', 'unlink', 'echo hi > file; rm file');
    await repeat('A/sub/deep', 'change', 'echo more >> sub/deep');
    await expect(
      Promise.race([
        events.next('file', (event) => String(event.path).startsWith('A/linked/')),
        Promise.resolve('not followed'),
      ]),
    ).resolves.toBe('not followed');
    await events.close();
  });

  it('watches in a process of its own that ends with the last listener', async () => {
    const watchers = async () => {
      const { output } = await callerOnHost('ps -eo ppid,args');
      return output
        .split('\n')
        .filter((line) => line.trim().startsWith(`${process.pid} `) && line.includes('file-watch-process')).length;
    };
    const [first, second] = [await listen(emulator().url), await listen(emulator().url)];
    await eventually('the watcher runs', async () => (await watchers()) === 1);
    await first.close();
    await second.close();
    await eventually('the watcher has ended', async () => (await watchers()) === 0);
    const head = await fetch(`${emulator().url}/_emulator/events`, { method: 'HEAD' });
    expect([head.status, await watchers()]).toEqual([200, 0]);
  });

  it('tells of a conversation whose directory is missing by a warning', async () => {
    const events = await listen(emulator().url);
    const env = randomId();
    await callerFor(emulator(), env, 'late').bash('true');
    const request = await events.next('request', (event) => event.sessionId === env);
    expect(request.warning).toBe(
      `conversation directory /tmp/workspace/${env}/late does not exist; the command ran in /tmp/workspace/${env}`,
    );
    await events.close();
  });
});

describeModes('the demo views', (emulator) => {
  it('read the state', async () => {
    expect(await readState(emulator().url)).toMatchObject({ network: 'shared' });
  });
});

async function callerOnHost(command: string): Promise<{ output: string }> {
  const { execa } = await import('execa');
  return { output: (await execa('bash', ['-c', command])).stdout };
}
