import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open, readFile } from 'node:fs/promises';
import { constants } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { callerFor, describeModes, randomId, useTempDir } from '../helpers/emulator.js';
import { randomCommands } from '../helpers/random-commands.js';

const COMMANDS = randomCommands(340, 20_261_130);
const BATCH = 20;
const AT_ONCE = 5;

type Outcome = { command: string; exitCode: number | null; output: string };

describeModes('commands in the emulator', (emulator) => {
  const directory = useTempDir();
  const batches = Array.from({ length: Math.ceil(COMMANDS.length / BATCH) }, (_, index) => index * BATCH);

  it.each(batches)('print and exit as under bash -c (from number %i)', async (start) => {
    const session = randomId();
    const commands = COMMANDS.slice(start, start + BATCH);
    const expected = await severalAtOnce(commands, (command, index) =>
      runDirectly(command, path.join(directory(), `${session}-${index}`)),
    );
    const actual = await severalAtOnce(commands, async (command, index) => {
      const caller = callerFor(emulator(), session, `c${index}`);
      await caller.init();
      const { exitCode, output } = await caller.bash(command, 60_000);
      return { command, exitCode, output };
    });
    expect(actual).toEqual(expected);
  });
});

/** What plain bash makes of the command in an empty directory, both outputs in one file. */
async function runDirectly(command: string, directory: string): Promise<Outcome> {
  await mkdir(directory);
  const file = `${directory}.output`;
  const output = await open(file, 'w');
  try {
    const child = spawn('/bin/bash', ['-c', command], {
      cwd: directory,
      env: { PATH: '/usr/local/bin:/usr/bin:/bin', LANG: 'C.UTF-8' },
      stdio: ['ignore', output.fd, output.fd],
      detached: true,
    });
    const [code, signal] = await once(child, 'exit');
    const exitCode = code ?? 128 + constants.signals[signal as NodeJS.Signals];
    return { command, exitCode, output: await readFile(file, 'utf8') };
  } finally {
    await output.close();
  }
}

async function severalAtOnce<Result>(
  commands: string[],
  run: (command: string, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const pending = commands.map((command, index) => ({ command, index }));
  const work = async () => {
    for (let next = pending.shift(); next; next = pending.shift())
      results[next.index] = await run(next.command, next.index);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return results;
}
