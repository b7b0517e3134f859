import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { initSandboxWorkspace, SandboxInstance } from '../../client/index.js';
import { PROJECT_ROOT, runCli, startCli } from '../helpers/cli.js';
import {
  callerFor,
  eventually,
  namespacesHold,
  randomId,
  removeWorkspaces,
  stateOf,
  useTempDir,
} from '../helpers/emulator.js';

describe('scf-sandbox start', () => {
  const tempDir = useTempDir();

  it('writes one JSON line with event, url, isolation, network and dataDir once it listens', async () => {
    const dataDir = `${tempDir()}/ready`;
    const cli = await startCli(['--data-dir', dataDir]);
    expect(cli.ready).toMatchObject({
      event: 'ready',
      isolation: namespacesHold ? 'namespace' : 'none',
      network: 'shared',
      dataDir,
    });
    expect(cli.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(cli.lines.filter((line) => line.event === 'ready')).toHaveLength(1);
    expect(await (await fetch(`${cli.url}/health`)).json()).toMatchObject({ ok: true, status: 'ready' });
  });

  it('starts by npm start, as the README says', async () => {
    const cli = await startCli(['--data-dir', `${tempDir()}/npm`], { program: ['npm', 'start', '--'] });
    expect((await fetch(`${cli.url}/health`)).status).toBe(200);
    // npm passes the signal on to the emulator.
    cli.child.kill('SIGTERM');
    await cli.ended;
    await expect(fetch(`${cli.url}/health`)).rejects.toThrow();
  });

  it('works without bubblewrap and says what is missing and how to install it', async () => {
    const bare = await startCli(['--ephemeral'], { env: { ...process.env, PATH: '/nowhere' } });
    expect(bare.ready).toMatchObject({ isolation: 'none' });
    const [warning] = bare.lines.filter((line) => line.level === 'warn');
    expect(warning?.msg).toBe(
      'Isolation is off: bubblewrap is not installed. Install it with "apt-get install bubblewrap" (Debian, Ubuntu) or "dnf install bubblewrap" (Fedora). Environments can reach each other and your files.',
    );
    const required = runCli(['--port', '0', '--ephemeral', '--isolation', 'require'], {
      env: { ...process.env, PATH: '/nowhere' },
    });
    expect(await required.ended).toBe(1);
    expect(required.stderr()).toContain('Isolation is required but not to be had: bubblewrap is not installed.');
    const off = await startCli(['--ephemeral', '--isolation', 'none']);
    expect(off.lines).toContainEqual(
      expect.objectContaining({
        level: 'warn',
        msg: 'Isolation is off by option. Environments can reach each other and your files.',
      }),
    );
    expect(await (await fetch(`${off.url}/health`)).json()).toMatchObject({ isolation: 'none' });
  });

  it('logs the mkdir -p of a new conversation with exit code 0, and the directory is there', async () => {
    const cli = await startCli(['--ephemeral']);
    const envId = randomId();
    const sandbox = new SandboxInstance({ target: { kind: 'emulator', url: cli.url }, envId, conversationId: 'A' });
    await initSandboxWorkspace(sandbox, { envId, secretId: 'id', secretKey: 'key' }, 'A');
    expect(await cli.line((line) => line.tool === 'bash')).toMatchObject({
      event: 'request',
      requestId: expect.any(String),
      sessionId: envId,
      conversationId: 'A',
      path: '/v1/functions/sandbox-shared/api/tools/bash',
      status: 200,
      durationMs: expect.any(Number),
      command: `mkdir -p "/tmp/workspace/${envId}/A"`,
      exitCode: 0,
      timedOut: false,
    });
    const { hostPath } = await stateOf(cli, envId);
    expect(await readdir(hostPath)).toEqual(['A']);
  });

  it('logs one readable line a request on a terminal', async () => {
    const cli = runCli(['--port', '0', '--ephemeral', '--log', 'pretty']);
    await eventually('it is ready', () => cli.output().includes('ready on http'));
    const url = /ready on (\S+)/.exec(cli.output())?.[1] ?? '';
    const caller = callerFor({ url }, randomId('pretty'), 'A');
    await caller.init();
    await caller.bash('exit 3');
    await eventually('the command is logged', () => cli.output().includes('exit 3'));
    expect(cli.output()).toMatch(
      /INFO: POST {2}\/api\/tools\/bash {2}200 {2}[\d.]+ ms {2}pretty-\w+\/A {2}\$ exit 3 {2}exit 3\n/,
    );
  });

  it('names the holder of a port that is taken', async () => {
    const holder = createServer().listen(0, '127.0.0.1');
    await once(holder, 'listening');
    const { port } = holder.address() as { port: number };
    const cli = runCli(['--port', String(port), '--ephemeral', '--log', 'json']);
    expect(await cli.ended).toBe(1);
    expect(cli.stderr()).toMatch(
      new RegExp(`Port ${port} is taken by pid ${process.pid} \\(.*\\)\\. Stop it, or choose another port with --port`),
    );
    holder.close();
  });

  it('refuses a data directory that another emulator has, and names that one', async () => {
    const dataDir = `${tempDir()}/shared`;
    const first = await startCli(['--data-dir', dataDir]);
    const second = runCli(['--port', '0', '--data-dir', dataDir]);
    expect(await second.ended).toBe(1);
    expect(second.stderr()).toContain(`The data directory ${dataDir} is in use by process ${first.pid}`);
  });

  it.each([
    [['--port', 'many'], 2, '--port: '],
    [['--port', '70000'], 2, '--port: '],
    [['--isolation', 'some'], 2, '--isolation: '],
    [['--pass-env', 'A=B'], 2, '--pass-env: is not the name of an environment variable'],
    [['--allowed-origin', 'example'], 2, '--allowed-origin: '],
    [['--unknown'], 2, "Unknown option '--unknown'"],
    [['stop'], 2, 'Unknown command stop'],
    [['--host', '192.0.2.1', '--port', '0', '--ephemeral'], 1, 'This machine has no address 192.0.2.1'],
  ])('ends %j with code %i and %j', async (argv, code, message) => {
    const cli = runCli(argv);
    expect(await cli.ended).toBe(code);
    expect(cli.stderr()).toContain(message);
  });

  it('prints help and version', async () => {
    const help = runCli(['--help']);
    expect(await help.ended).toBe(0);
    const version = runCli(['--version']);
    expect(await version.ended).toBe(0);
  });
});

describe('stopping', () => {
  const tempDir = useTempDir();

  it.each(['SIGINT', 'SIGTERM'] as const)(
    'ends with code 0 on %s after the request in flight is answered',
    async (signal) => {
      const cli = await startCli(['--data-dir', `${tempDir()}/${signal}`]);
      const caller = callerFor({ url: cli.url }, randomId(), 'A');
      removeWorkspaces([caller.sessionId]);
      await caller.init();
      const answer = caller.bash('touch started; sleep 0.5; echo done');
      await expect.poll(async () => (await caller.bash('ls started')).exitCode, { timeout: 10_000 }).toBe(0);
      cli.child.kill(signal);
      expect((await answer).output).toBe('done\n');
      expect(await cli.ended).toBe(0);
    },
  );

  it('ends at once on a second signal', async () => {
    const cli = await startCli(['--data-dir', `${tempDir()}/twice`]);
    const caller = callerFor({ url: cli.url }, randomId(), 'A');
    removeWorkspaces([caller.sessionId]);
    await caller.init();
    const cut = caller.bash('touch started; sleep 600', 900_000).catch((error) => error);
    await expect.poll(async () => (await caller.bash('ls started')).exitCode, { timeout: 10_000 }).toBe(0);
    cli.child.kill('SIGINT');
    await cli.line((line) => line.msg === 'stopping; a second signal ends everything at once');
    cli.child.kill('SIGINT');
    expect(await cli.ended).toBe(0);
    expect(await cut).toBeInstanceOf(Error);
  });

  it('keeps work for the next start, unless it is ephemeral', async () => {
    const dataDir = `${tempDir()}/kept`;
    const env = randomId();
    removeWorkspaces([env]);
    const first = await startCli(['--data-dir', dataDir]);
    await callerFor({ url: first.url }, env, 'A').init();
    await callerFor({ url: first.url }, env, 'A').bash('echo kept > file; echo tool > ~/tool');
    first.child.kill('SIGTERM');
    await first.ended;
    const second = await startCli(['--data-dir', dataDir]);
    expect((await callerFor({ url: second.url }, env, 'A').bash('cat file ~/tool')).output).toBe('kept\ntool\n');
    expect(await readdir(`${dataDir}/instances`)).toHaveLength(1);

    const ephemeral = await startCli(['--ephemeral']);
    await callerFor({ url: ephemeral.url }, env, 'A').init();
    ephemeral.child.kill('SIGTERM');
    await ephemeral.ended;
    expect(existsSync(String(ephemeral.ready.dataDir))).toBe(false);
  });
});

describe('npm run demo', () => {
  it('tells the story to its end', async () => {
    const demo = runCli([], { program: [process.execPath, `${PROJECT_ROOT}/dist/fixtures/demo/main.js`] });
    let text = '';
    demo.child.stdout?.on('data', (chunk) => {
      text += chunk;
    });
    expect(await demo.ended).toBe(0);
    expect(text).toContain('The story holds.');
  });
});
