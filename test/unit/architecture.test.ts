import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const repository = fileURLToPath(new URL('../..', import.meta.url));

const FORBIDDEN = [
  ['emulator/gateway', '../instance/app.js'],
  ['emulator/gateway', '../tools/registry.js'],
  ['emulator/gateway', '../workspace/run-command.js'],
  ['emulator/gateway', '../control/app.js'],
  ['emulator/gateway', '../../client/index.js'],
  ['emulator/gateway', '../../client/archive/remote.js'],
  ['emulator/instance', '../gateway/app.js'],
  ['emulator/instance', '../isolation/launcher.js'],
  ['emulator/instance', '../control/app.js'],
  ['emulator/instance', '../../client/transport.js'],
  ['emulator/instance', '../../client/archive/remote.js'],
  ['emulator/tools', '../gateway/app.js'],
  ['emulator/tools', '../instance/app.js'],
  ['emulator/tools', '../../client/sandbox-instance.js'],
  ['emulator/workspace', '../../client/archive/remote.js'],
  ['emulator/workspace', '../gateway/app.js'],
  ['emulator/workspace', '../instance/app.js'],
  ['emulator/isolation', '../gateway/app.js'],
  ['emulator/isolation', '../instance/app.js'],
  ['emulator/control', '../gateway/app.js'],
  ['emulator/control', '../instance/app.js'],
  ['emulator', '../client/index.js'],
  ['emulator', '../client/archive/remote.js'],
  ['emulator', '../client/archive/deep/remote.js'],
  ['client', '../emulator/errors.js'],
  ['client/wire', '../../emulator/errors.js'],
] as const;

const ALLOWED = [
  ['emulator', './gateway/app.js'],
  ['emulator', '../client/wire/ids.js'],
  ['emulator/gateway', '../errors.js'],
  ['emulator/gateway', '../isolation/launcher.js'],
  ['emulator/gateway', '../../client/wire/ids.js'],
  ['emulator/instance', '../tools/registry.js'],
  ['emulator/instance', '../workspace/run-command.js'],
  ['emulator/instance', '../../client/wire/ids.js'],
  ['emulator/tools', '../workspace/workspace.js'],
  ['emulator/tools', '../../client/wire/bash.js'],
  ['client', './wire/ids.js'],
  ['client/wire', './ids.js'],
] as const;

/** Every way in which one module can name another. */
const FORMS: ReadonlyArray<(module: string) => string> = [
  (module) => `import { a } from '${module}';\nexport const b = a;\n`,
  (module) => `import type { A } from '${module}';\nexport type B = A;\n`,
  (module) => `export { a } from '${module}';\n`,
  (module) => `export const b = import('${module}');\n`,
];

describe('the import arrows', () => {
  let directory = '';
  let refused: Set<string>;
  const fileOf = (room: string, module: string, form: number) =>
    `${room}/planted-${module.replaceAll(/\W+/g, '-')}${form}.ts`;
  const refusedForms = (room: string, module: string) =>
    FORMS.map((_, form) => refused.has(fileOf(room, module, form)));

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'scf-test-'));
    await copyFile(path.join(repository, 'biome.json'), path.join(directory, 'biome.json'));
    for (const [room, module] of [...FORBIDDEN, ...ALLOWED]) {
      await mkdir(path.join(directory, room), { recursive: true });
      for (const [form, write] of FORMS.entries())
        await writeFile(path.join(directory, fileOf(room, module, form)), write(module));
    }
    refused = await lint(directory);
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  it.each(FORBIDDEN)('forbid %s to import %s', (room, module) => {
    expect(refusedForms(room, module)).toEqual(FORMS.map(() => true));
  });

  it.each(ALLOWED)('allow %s to import %s', (room, module) => {
    expect(refusedForms(room, module)).toEqual(FORMS.map(() => false));
  });
});

/** Names of the files in which lint found a forbidden import. */
async function lint(directory: string): Promise<Set<string>> {
  const biome = path.join(repository, 'node_modules/.bin/biome');
  const options = ['--vcs-enabled=false', '--only=style/noRestrictedImports', '--max-diagnostics=none'];
  const report = await new Promise<string>((resolve) => {
    // Its exit code is 1, since it finds what was planted.
    execFile(biome, ['lint', ...options, '--reporter=json', '.'], { cwd: directory }, (_error, stdout) =>
      resolve(stdout),
    );
  });
  const { diagnostics } = JSON.parse(report) as {
    diagnostics: Array<{ category: string; location: { path: string } }>;
  };
  expect(new Set(diagnostics.map(({ category }) => category))).toEqual(new Set(['lint/style/noRestrictedImports']));
  return new Set(diagnostics.map(({ location }) => location.path));
}
