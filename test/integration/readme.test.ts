import { readFileSync } from 'node:fs';
import path from 'node:path';
import { execa } from 'execa';
import { describe, expect, it } from 'vitest';
import { SandboxError } from '../../emulator/errors.js';
import { PROJECT_ROOT, runCli } from '../helpers/cli.js';
import { namespacesHold, useEmulator } from '../helpers/emulator.js';

const READMES = ['README.md', 'README.zh.md'];
const readme = (name: string) => readFileSync(path.join(PROJECT_ROOT, name), 'utf8');

type Step = { command: string; output: string };

/** The lines of the tour: what is typed, and what is seen. */
function readTour(text: string): Step[] {
  const block = /```console\n([\s\S]*?)```/.exec(text)?.[1] ?? '';
  const steps: Step[] = [];
  for (const line of block.split('\n').filter((candidate) => candidate !== '')) {
    if (line.startsWith('$ ')) steps.push({ command: line.slice(2), output: '' });
    else {
      const step = steps.at(-1);
      if (step) step.output += `${line}\n`;
    }
  }
  return steps;
}

describe.runIf(namespacesHold)('the 60-second tour', () => {
  const emulator = useEmulator('namespace');

  it.each(READMES)('of %s prints, pasted line by line, what it says', async (name) => {
    const steps = readTour(readme(name));
    expect(steps.length).toBeGreaterThan(7);
    const script = steps
      .map(({ command }) => `${command.replace('http://127.0.0.1:9000', emulator().url)}\nprintf '\\x1e'`)
      .join('\n');
    const { stdout } = await execa('bash', ['--norc', '--noprofile'], { input: script, stripFinalNewline: false });
    const outputs = stdout.split('\x1e').slice(0, -1);
    expect(outputs).toEqual(steps.map(({ output }) => output));
  });
});

describe.each(READMES)('%s', (name) => {
  it('names every error code with its status', () => {
    const isNamed = (code: SandboxError['code']) => {
      const { status } = new SandboxError(code, '');
      return new RegExp(`\\| ${status} \\|[^\\n]*\`${code}\``).test(readme(name));
    };
    expect(allCodes().length).toBeGreaterThan(15);
    expect(allCodes().filter((code) => !isNamed(code))).toEqual([]);
  });

  it('names every option of the command line', async () => {
    const help = runCli(['--help']);
    let text = '';
    help.child.stdout?.on('data', (chunk) => {
      text += chunk;
    });
    await help.ended;
    const options = [...text.matchAll(/^ {2}(--[a-z-]+)/gm)]
      .map((match) => match[1])
      .filter((option) => option !== '--version');
    expect(options.length).toBeGreaterThan(10);
    expect(options.filter((option) => !readme(name).includes(`\`${option}`))).toEqual([]);
  });

  it('gives every dependency a line', () => {
    const { dependencies, devDependencies } = JSON.parse(readme('package.json'));
    const row = (dependency: string) => new RegExp(`\\|[^|]*${dependency}[ ,][^|]*\\|`);
    const names = Object.keys({ ...dependencies, ...devDependencies });
    expect(names.filter((dependency) => !row(dependency).test(readme(name)))).toEqual([]);
  });
});

function allCodes(): SandboxError['code'][] {
  const source = readme('emulator/errors.ts');
  return [...source.matchAll(/^ {2}([A-Z_]+): \d{3},$/gm)].map((match) => match[1] as SandboxError['code']);
}
