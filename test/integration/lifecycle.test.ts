import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { describe, expect, it, vi } from 'vitest';
import { createEmulator, type Emulator } from '../../dist/emulator/index.js';
import { startCli } from '../helpers/cli.js';
import {
  callerFor,
  describeModes,
  eventually,
  optionsFor,
  randomId,
  removeWorkspaces,
  stateOf,
  useTempDir,
} from '../helpers/emulator.js';

async function instanceOf(emulator: Pick<Emulator, 'url'>, sessionId: string) {
  const { instance, generations } = await stateOf(emulator, sessionId);
  if (!instance) throw new Error(`no instance of ${sessionId}`);
  return { ...instance, generations };
}

/** Open descriptors of this process that are sockets, pipes or files, and not its own plumbing. */
function countDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}

function hasDescendants(marker: string): boolean {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .some((pid) => {
      try {
        return (
          readFileSync(`/proc/${pid}/environ`, 'latin1').includes(marker) && readlinkSync(`/proc/${pid}/exe`) !== ''
        );
      } catch {
        return false;
      }
    });
}

describeModes('an instance', (emulator) => {
  it('is started once for many first callers', async () => {
    const env = randomId();
    const ids = await Promise.all(
      Array.from({ length: 20 }, async (_, index) =>
        (await callerFor(emulator(), env, `c${index}`).request('/health')).headers.get('x-emulator-instance'),
      ),
    );
    expect(new Set(ids).size).toBe(1);
    expect((await instanceOf(emulator(), env)).generations).toBe(1);
  });

  it('that is killed during a command answers it with 443, and the next request works on the same files', async () => {
    const env = randomId();
    const caller = callerFor(emulator(), env, 'A');
    await caller.init({ SECRET: 'kept' });
    await caller.bash('echo before > file');
    const broken = caller.json('POST', '/api/tools/bash', { command: 'touch started; sleep 600', timeout: 900_000 });
    await eventually('the command runs', async () => (await caller.bash('ls started')).exitCode === 0);
    const killed = await instanceOf(emulator(), env);
    process.kill(killed.pid, 'SIGKILL');
    const answer = await broken;
    expect(answer).toMatchObject({
      status: 443,
      body: { success: false, code: 'INSTANCE_CRASHED', requestId: answer.headers.get('x-request-id') },
    });
    expect(answer.headers.get('x-cloudbase-upstream-status-code')).toBe('443');

    const next = await caller.json('POST', '/api/tools/bash', { command: 'cat file; echo $SECRET' });
    expect(next).toMatchObject({ status: 200, body: { success: true, result: { output: 'before\nkept\n' } } });
    expect(next.headers.get('x-emulator-instance')).not.toBe(killed.id);
    expect((await instanceOf(emulator(), env)).generations).toBe(2);
  });

  it('that is killed while it is idle is replaced without an error', async () => {
    const env = randomId();
    const caller = callerFor(emulator(), env, 'A');
    await caller.init();
    for (let round = 0; round < 5; round++) {
      await caller.bash(`echo ${round} >> rounds`);
      process.kill((await instanceOf(emulator(), env)).pid, 'SIGKILL');
      expect((await caller.bash('tail -1 rounds')).output).toBe(`${round}\n`);
    }
  });

  it('that is ended by its own command is replaced', async () => {
    const env = randomId();
    const caller = callerFor(emulator(), env, 'A');
    await caller.init();
    await caller.bash('echo kept > file');
    const { id } = await instanceOf(emulator(), env);
    // The instance is the parent of the shell.
    const suicide = await caller.json('POST', '/api/tools/bash', {
      command: 'kill -9 $PPID; sleep 600',
      timeout: 900_000,
    });
    expect(suicide.status).toBe(443);
    expect((await caller.bash('cat file')).output).toBe('kept\n');
    expect((await instanceOf(emulator(), env)).id).not.toBe(id);
  });
});

describeModes('a data directory', (_emulator, mode) => {
  const tempDir = useTempDir();

  it('gives back every workspace after the emulator was killed', async () => {
    const dataDir = `${tempDir()}/killed`;
    const envs = [randomId(), randomId()];
    removeWorkspaces(envs);
    const argv = ['--data-dir', dataDir, '--isolation', mode === 'none' ? 'none' : 'require'];
    const first = await startCli(argv);
    for (const env of envs) {
      await callerFor(first, env, 'A').init();
      await callerFor(first, env, 'A').bash(`echo ${env} > file; setsid sleep 600 > /dev/null 2>&1 &`);
    }
    const marker = `SCF_SANDBOX_INSTANCE=${(await instanceOf(first, envs[0] ?? '')).id}`;
    first.child.kill('SIGKILL');
    await first.ended;
    const second = await startCli(argv);
    expect(hasDescendants(marker)).toBe(false);
    for (const env of envs) {
      const caller = callerFor(second, env, 'A');
      expect((await caller.bash('cat file')).output).toBe(`${env}\n`);
    }
    expect(await readdir(`${dataDir}/instances`)).toHaveLength(2);
    second.child.kill('SIGTERM');
    await second.ended;
    expect(await readdir(`${dataDir}/instances`)).toEqual([]);
  });
});

describe('starting and stopping', () => {
  const tempDir = useTempDir();

  it.each(['namespace', 'none'] as const)(
    'leaves no process, socket, FIFO or file behind in 30 cycles of mode %s',
    async (mode) => {
      const cycle = async () => {
        const emulator = await createEmulator({ ...optionsFor(mode), isolation: mode === 'none' ? 'none' : 'auto' });
        const env = randomId();
        const caller = callerFor(emulator, env, 'A');
        await caller.init();
        await caller.bash('setsid sleep 600 > /dev/null 2>&1 & mkfifo x; echo hi');
        const { id } = await instanceOf(emulator, env);
        await emulator.close();
        expect(hasDescendants(`SCF_SANDBOX_INSTANCE=${id}`)).toBe(false);
      };
      vi.stubEnv('TMPDIR', tempDir());
      await cycle();
      const descriptors = countDescriptors();
      for (let round = 0; round < 30; round++) await cycle();
      vi.unstubAllEnvs();
      expect(await readdir(tempDir())).toEqual([]);
      // Connections of fetch's own pool may come and go.
      expect(countDescriptors()).toBeLessThanOrEqual(descriptors + 5);
    },
  );
});

describe('a killed ephemeral emulator', () => {
  const tempDir = useTempDir();

  it('leaves nothing that the next start does not remove', async () => {
    const env = { ...process.env, TMPDIR: tempDir() };
    const argv = ['--ephemeral', '--isolation', 'none'];
    const first = await startCli(argv, { env });
    const session = randomId();
    removeWorkspaces([session]);
    await callerFor(first, session, 'A').init();
    await callerFor(first, session, 'A').bash('setsid sleep 600 > /dev/null 2>&1 &');
    const { id } = await instanceOf(first, session);
    first.child.kill('SIGKILL');
    await first.ended;
    const second = await startCli(argv, { env });
    expect(hasDescendants(`SCF_SANDBOX_INSTANCE=${id}`)).toBe(false);
    expect(await readdir(tempDir())).toHaveLength(1);
    // Outside the data directory, mode none keeps the workspace of a killed emulator.
    await callerFor(second, session, 'A').bash(`rm -rf /tmp/workspace/${session}`);
    second.child.kill('SIGTERM');
    await second.ended;
    expect(await readdir(tempDir())).toEqual([]);
  });
});
