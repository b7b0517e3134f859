import { expect, it } from 'vitest';
import { BASH_OUTPUT_LIMIT_BYTES } from '../../client/wire/bash.js';
import { bashResult } from '../helpers/bash-result.js';
import { callerFor, describeModes, randomId } from '../helpers/emulator.js';
import { peakMemoryBytes } from '../helpers/processes.js';

const MEBIBYTE = 1024 * 1024;
const NOTICE = /^(.*)\n\n\.\.\. \[(\d+) bytes left out\] \.\.\.\n\n(.*)$/s;

/** The parts of a shortened output. */
function partsOf(output: string): { head: string; omittedBytes: number; tail: string } {
  const [, head, omitted, tail] = NOTICE.exec(output) ?? [];
  if (head === undefined || tail === undefined) throw new Error(`no notice in ${output.length} characters`);
  return { head, omittedBytes: Number(omitted), tail };
}

/** Characters of 2, 3 and 4 bytes, with so many bytes before them that cuts fall at each place in one. */
const CUTS = ['é', '你', '🌍'].flatMap((character) => [0, 1, 2, 3].map((offset) => ({ character, offset })));

describeModes('output of a command', (emulator) => {
  const conversation = async () => {
    const caller = callerFor(emulator(), randomId(), 'A');
    await caller.init();
    return caller;
  };

  it('joins a character that is written in pieces', async () => {
    const caller = await conversation();
    const pieces = ['\\xe4', '\\xbd', '\\xa0', '\\xf0\\x9f', '\\x8c\\x8d', '\\xc3', '\\xa9\\n'];
    const command = pieces.map((piece) => `/usr/bin/printf '${piece}'; sleep 0.02`).join('; ');
    expect(await caller.bash(command)).toEqual(bashResult('你🌍é\n'));
  });

  it('is whole up to the limit', async () => {
    const caller = await conversation();
    const command = `head -c ${BASH_OUTPUT_LIMIT_BYTES} /dev/zero | tr '\\0' x`;
    expect(await caller.bash(command)).toEqual(bashResult('x'.repeat(BASH_OUTPUT_LIMIT_BYTES)));
  });

  it('is shortened one byte above the limit', async () => {
    const caller = await conversation();
    const printed = BASH_OUTPUT_LIMIT_BYTES + 1;
    const { output, ...rest } = await caller.bash(`head -c ${printed} /dev/zero | tr '\\0' x; exit 5`);
    const { head, omittedBytes, tail } = partsOf(output);
    expect({ output, ...rest }).toEqual(bashResult(output, { exitCode: 5, truncated: true, omittedBytes }));
    expect(head.length + omittedBytes + tail.length).toBe(printed);
    expect(head + tail).toMatch(/^x+$/);
    expect(output.length).toBeLessThanOrEqual(BASH_OUTPUT_LIMIT_BYTES);
  });

  it.each(CUTS)('is cut between characters ($character after $offset bytes)', async ({ character, offset }) => {
    const caller = await conversation();
    const printed = 'x'.repeat(offset) + character.repeat(30_000);
    const result = await caller.bash(`printf '%s' ${'x'.repeat(offset)}; printf '${character}%.0s' {1..30000}`);
    const { head, omittedBytes, tail } = partsOf(result.output);
    expect(result).toEqual(bashResult(result.output, { truncated: true, omittedBytes }));
    expect(printed.startsWith(head) && printed.endsWith(tail)).toBe(true);
    expect(result.output).not.toContain('\ufffd');
    expect(Buffer.byteLength(head) + omittedBytes + Buffer.byteLength(tail)).toBe(Buffer.byteLength(printed));
    expect(Buffer.byteLength(result.output)).toBeLessThanOrEqual(BASH_OUTPUT_LIMIT_BYTES);
    expect(Buffer.byteLength(result.output)).toBeGreaterThan(BASH_OUTPUT_LIMIT_BYTES - 200);
  });

  it('is counted exactly in a gibibyte, in bounded memory', { timeout: 400_000 }, async () => {
    const caller = await conversation();
    const pid = await instancePid(caller.sessionId);
    await caller.bash('seq 100000');
    const before = peakMemoryBytes(pid);
    const printed = 1024 * MEBIBYTE;
    const result = await caller.bash(`head -c ${printed} /dev/zero | tr '\\0' x`, 380_000);
    const { head, omittedBytes, tail } = partsOf(result.output);
    expect(result).toEqual(bashResult(result.output, { truncated: true, omittedBytes }));
    expect(head.length + omittedBytes + tail.length).toBe(printed);
    expect(peakMemoryBytes(pid) - before).toBeLessThan(100 * MEBIBYTE);
    expect(await caller.bash('echo next')).toEqual(bashResult('next\n'));
  });

  async function instancePid(sessionId: string): Promise<number> {
    const state = (await (await fetch(`${emulator().url}/_emulator/state`)).json()) as {
      sessions: Array<{ sessionId: string; instance: { pid: number } }>;
    };
    const pid = state.sessions.find((session) => session.sessionId === sessionId)?.instance.pid;
    if (pid === undefined) throw new Error(`session ${sessionId} has no instance`);
    return pid;
  }
});
