import { randomInt } from 'node:crypto';
import { expect, it } from 'vitest';
import { bashResult } from '../helpers/bash-result.js';
import { callerFor, describeModes, eventually, randomId } from '../helpers/emulator.js';
import { pidsWithArgument } from '../helpers/processes.js';

/** A duration for `sleep` that no other process on this machine sleeps for, so that it can be found. */
const uniqueSleep = () => `1000.${randomInt(1e12)}`;

const BACKGROUND: Array<[kind: string, start: string]> = [
  ['silent', 'bash -c "$LOOP" & echo started'],
  ['redirected', 'bash -c "$LOOP" > /dev/null 2>&1 & echo started'],
  ['nohup', 'nohup bash -c "$LOOP" > log 2>&1 & echo started'],
  ['setsid', 'setsid bash -c "$LOOP" & echo started'],
  ['disowned', 'bash -c "$LOOP" & disown; echo started'],
  ['twice forked', '( ( bash -c "$LOOP" & ) & ); echo started'],
  ['twice forked in a session of its own', '( setsid bash -c "$LOOP" & ); echo started'],
];
/** Adds a line to `ticks` again and again until there is a file `stop`. */
const LOOP = 'until [ -e stop ]; do echo tick >> ticks; sleep 0.05; done; echo over > ended';

describeModes('a child in the background', (emulator) => {
  const conversation = async () => {
    const caller = callerFor(emulator(), randomId(), 'A');
    await caller.init();
    return caller;
  };

  it.concurrent.each(BACKGROUND)('lives on and outlives the timeout of a later call (%s)', async (_kind, start) => {
    const caller = await conversation();
    const ticks = async () => Number((await caller.bash('cat ticks 2> /dev/null | wc -l')).output);
    expect(await caller.bash(`LOOP=${JSON.stringify(LOOP)}; ${start}`)).toEqual(
      bashResult('started\n', { background: true }),
    );
    await eventually('the child works after the call', async () => (await ticks()) > 0);
    expect(await caller.bash('sleep 60', 1_000)).toMatchObject({ timedOut: true });
    const then = await ticks();
    await eventually('the child works after the timeout', async () => (await ticks()) > then + 1);
    expect(await caller.bash('touch stop')).toEqual(bashResult(''));
    await eventually('the child ends by itself', async () => (await caller.bash('cat ended')).output === 'over\n');
  });

  it('can be signalled by a later call', async () => {
    const caller = await conversation();
    const { output: pid, background } = await caller.bash('sleep 1000 & echo -n $!');
    expect(background).toBe(true);
    expect(await caller.bash(`kill -0 ${pid}`)).toEqual(bashResult(''));
    expect(await caller.bash(`kill ${pid}`)).toEqual(bashResult(''));
    await eventually('the child is gone', async () => (await caller.bash(`kill -0 ${pid}`)).exitCode === 1);
  });

  it('that prints without end does not hold the call up, and its output of later is dropped', async () => {
    const caller = await conversation();
    const chatty = await caller.bash('(until [ -e stop ]; do echo chatter; done; echo over > ended) & echo started');
    expect(chatty).toMatchObject({ exitCode: 0, background: true });
    expect(chatty.output).toContain('started\n');
    expect(await caller.bash('touch stop')).toEqual(bashResult(''));
    await eventually('the child ends by itself', async () => (await caller.bash('cat ended')).output === 'over\n');
  });

  it('is neither blocked nor killed when it writes more than a pipe holds after the call', async () => {
    const caller = await conversation();
    const flood = "head -c 3000000 /dev/zero | tr '\\0' x";
    const wait = 'until [ -e go ]; do sleep 0.05; done';
    const first = await caller.bash(`(${wait}; ${flood}; echo "\${PIPESTATUS[@]}" > marker) & echo started`);
    expect(first).toEqual(bashResult('started\n', { background: true }));
    await caller.bash('touch go');
    await eventually('the child has written all', async () => (await caller.bash('cat marker')).output === '0 0\n');
  });

  it('that the command waits for holds the call up', async () => {
    const caller = await conversation();
    expect(await caller.bash('(sleep 0.5; echo child) & wait; echo parent')).toEqual(bashResult('child\nparent\n'));
  });
});

const STUBBORN: Array<[kind: string, command: (sleep: string) => string]> = [
  ['is an ordinary program', (sleep) => `sleep ${sleep}`],
  ['replaces the shell', (sleep) => `exec sleep ${sleep}`],
  ['waits for a child in the background', (sleep) => `sleep ${sleep} & wait`],
  ['ignores TERM', (sleep) => `trap '' TERM; sleep ${sleep}; sleep ${sleep}`],
  ['forks', (sleep) => `sleep ${sleep} & (sleep ${sleep} & sleep ${sleep} & wait) & sleep ${sleep}`],
  ['forks in a pipeline', (sleep) => `sleep ${sleep} | sleep ${sleep} | sleep ${sleep}`],
  ['forks twice', (sleep) => `( ( sleep ${sleep} & ) & ); sleep ${sleep}`],
  ['forks into a session of its own', (sleep) => `( setsid sleep ${sleep} & ); sleep ${sleep}`],
  ['forks without environment', (sleep) => `env -i sleep ${sleep} & env -i setsid sleep ${sleep} & sleep ${sleep}`],
  [
    'ignores TERM in a session of its own',
    (sleep) => `setsid bash -c "trap '' TERM; sleep ${sleep}; sleep ${sleep}" & sleep ${sleep}`,
  ],
  ['has job control', (sleep) => `set -m; sleep ${sleep} & sleep ${sleep}`],
  ['stops itself', (sleep) => `sleep ${sleep} & kill -STOP $$`],
  ['stops its child', (sleep) => `sleep ${sleep} & until grep -q sleep /proc/$!/comm; do :; done; kill -STOP $!; wait`],
  ['begins anew on TERM', (sleep) => `trap 'sleep ${sleep} & sleep ${sleep}' TERM; sleep ${sleep} & wait`],
];

describeModes('a command that takes too long', (emulator) => {
  it.concurrent.each(STUBBORN)('is ended with all its children when it %s', async (_kind, command) => {
    const caller = callerFor(emulator(), randomId(), 'A');
    await caller.init();
    const sleep = uniqueSleep();
    const answer = caller.bash(`echo partial; echo error >&2; ${command(sleep)}`, 4_000);
    await eventually('the command sleeps', () => pidsWithArgument(sleep).length > 0);
    expect(await answer).toEqual(bashResult('partial\nerror\n', { exitCode: null, timedOut: true }));
    expect(pidsWithArgument(sleep)).toEqual([]);
    expect(await caller.bash('echo next')).toEqual(bashResult('next\n'));
  });

  it('is answered, with what it printed, before the caller gives up', async () => {
    const caller = callerFor(emulator(), randomId(), 'A');
    await caller.init();
    // The longest margin there is, a second, so that a busy machine keeps it too.
    const request = caller.request('/api/tools/bash', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ command: "trap '' TERM; echo partial; sleep 60", timeout: 10_000 }),
      signal: AbortSignal.timeout(10_000),
    });
    const result = bashResult('partial\n', { exitCode: null, timedOut: true });
    expect(await (await request).json()).toEqual({ success: true, result });
  });

  it('keeps head and tail of what a flood printed', async () => {
    const caller = callerFor(emulator(), randomId(), 'A');
    await caller.init();
    const { output, ...rest } = await caller.bash('echo first; yes', 2_000);
    expect(rest).toMatchObject({ exitCode: null, timedOut: true, truncated: true, background: false });
    expect(output).toMatch(/^first\ny\n.*\ny\n/s);
    expect(await caller.bash('echo next')).toEqual(bashResult('next\n'));
  });

  it('is not ended by the timeout of another call', async () => {
    const caller = callerFor(emulator(), randomId(), 'A');
    await caller.init();
    const patient = caller.bash('until [ -e go ]; do sleep 0.05; done; echo done', 60_000);
    expect(await caller.bash('sleep 60', 500)).toEqual(bashResult('', { exitCode: null, timedOut: true }));
    await caller.bash('touch go');
    expect(await patient).toEqual(bashResult('done\n'));
  });
});
