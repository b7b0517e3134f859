import { cp, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { argvFor, MAIN, startCli } from '../helpers/cli.js';
import {
  callerFor,
  describeModes,
  type Mode,
  namespacesHold,
  randomId,
  stateOf,
  useTempDir,
} from '../helpers/emulator.js';

const PROJECTS = fileURLToPath(new URL('../../fixtures/projects', import.meta.url));
const MODES: Mode[] = namespacesHold ? ['namespace', 'none'] : ['none'];
const REGISTRY_TIMEOUT_MS = 110_000;

describeModes('the programs in an instance', (emulator) => {
  const makeCaller = async () => {
    const caller = callerFor(emulator(), randomId(), 'A');
    await caller.init();
    return caller;
  };

  it('run node, and python3', async () => {
    const caller = await makeCaller();
    expect((await caller.bash('node -p 6*7')).output).toBe('42\n');
    expect((await caller.bash('node -v')).output).toBe(`${process.version}\n`);
    expect((await caller.bash("python3 -c 'print(6*7)'")).output).toBe('42\n');
  });

  it('make a git repository and commit to it', async () => {
    const caller = await makeCaller();
    const made = await caller.bash('git init -q repo && cd repo && echo a > a && git add a && git commit -qm first');
    expect(made).toMatchObject({ exitCode: 0 });
    const log = await caller.bash('cd repo && git log --format=%s && git status --short');
    expect(log).toMatchObject({ exitCode: 0, output: 'first\n' });
  });

  it('install a project from its lockfile', async () => {
    const caller = await makeCaller();
    const { hostPath } = await stateOf(emulator(), caller.sessionId);
    await cp(path.join(PROJECTS, 'npm-small'), path.join(hostPath, 'A/npm-small'), { recursive: true });
    const installed = await caller.bash('cd npm-small && npm ci', REGISTRY_TIMEOUT_MS);
    expect(installed, installed.output).toMatchObject({ exitCode: 0 });
    expect((await caller.bash('cd npm-small && node -p \'require("is-number")(5)\'')).output).toBe('true\n');
  });

  it('install a program for the session, and find it', async () => {
    const caller = await makeCaller();
    const installed = await caller.bash('npm i -g semver@7.7.2', REGISTRY_TIMEOUT_MS);
    expect(installed, installed.output).toMatchObject({ exitCode: 0 });
    expect((await caller.bash('semver 1.2.3')).output).toBe('1.2.3\n');
    expect((await caller.bash("bash -lc 'semver 1.2.4'")).output).toBe('1.2.4\n');
    expect((await caller.bash('command -v semver')).output).toBe(
      (await caller.bash('echo ~/.local/bin/semver')).output,
    );
    expect(await (await makeCaller()).bash('semver 1.2.3')).toMatchObject({ exitCode: 127 });
  });

  it('are found by a login shell on the same PATH', async () => {
    const caller = await makeCaller();
    const found = await caller.bash('command -v node npm git');
    expect(found).toMatchObject({ exitCode: 0 });
    expect((await caller.bash("bash -lc 'command -v node npm git'")).output).toBe(found.output);
    expect((await caller.bash("bash -lc 'echo $PATH'")).output).toBe((await caller.bash('echo $PATH')).output);
  });
});

describe.each(MODES)('an emulator that runs on a Node in a private directory [%s]', (mode) => {
  const directory = useTempDir();

  it('gives commands that Node and its npm, and nothing else of the directory', async () => {
    const version = path.join(directory(), 'versions/node/v20');
    const node = path.join(version, 'bin/node');
    await mkdir(path.dirname(node), { recursive: true });
    await cp(process.execPath, node);
    await copyNpm(version);
    await writeFile(path.join(version, 'private'), 'private');
    await writeFile(path.join(version, 'lib/node_modules/private'), 'private');

    const cli = await startCli(argvFor(mode), { program: [node, MAIN] });
    const caller = callerFor(cli, randomId(), 'A');
    await caller.init();
    expect((await caller.bash('node -v')).output).toBe(`${process.version}\n`);
    expect(await caller.bash('npm -v')).toMatchObject({
      exitCode: 0,
      output: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    });
    expect((await caller.bash("bash -lc 'node -p process.execPath'")).output).toBe(
      mode === 'none' ? `${node}\n` : '/run/emulator/node/bin/node\n',
    );
    const npm = 'lib/node_modules/npm/bin/npm-cli.js\n';
    expect((await caller.bash('readlink -f "$(command -v npm)"')).output).toBe(
      mode === 'none' ? `${version}/${npm}` : `/run/emulator/node/${npm}`,
    );
    if (mode === 'none') return;
    expect(await caller.bash(`ls ${directory()}`)).toMatchObject({ exitCode: 2 });
    const { output } = await caller.bash('cd /run/emulator/node && ls . bin lib lib/node_modules');
    expect(output).toBe('.:\nbin\nlib\n\nbin:\nnode\nnpm\nnpx\n\nlib:\nnode_modules\n\nlib/node_modules:\nnpm\n');
  });
});

/** Copies the npm that belongs to the Node of this process, as a version manager lays it out. */
async function copyNpm(version: string): Promise<void> {
  const modules = path.resolve(path.dirname(process.execPath), '../lib/node_modules');
  expect(await readdir(modules)).toContain('npm');
  await cp(path.join(modules, 'npm'), path.join(version, 'lib/node_modules/npm'), { recursive: true });
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', path.join(version, 'bin/npm'));
}
