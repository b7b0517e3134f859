import { expect, it } from 'vitest';
import { bashResult } from '../helpers/bash-result.js';
import { callerFor, describeModes, randomId } from '../helpers/emulator.js';

const MEBIBYTE = 1024 * 1024;

const COMMANDS: Array<[what: string, command: string, exitCode: number, output: string]> = [
  ['cat reads an empty standard input', 'cat', 0, ''],
  ['read reads an empty standard input', 'read line; echo "$? [$line]"', 0, '1 []\n'],
  ['a here-document is read', 'cat <<EOF\none $((1 + 1))\nEOF\necho after', 0, 'one 2\nafter\n'],
  ['exec replaces the shell', 'exec echo replaced; echo never', 0, 'replaced\n'],
  ['exit 300 is 44', 'exit 300', 44, ''],
  ['exit -1 is 255', 'exit -1', 255, ''],
  ['a missing program is 127', 'missing-program', 127, '/bin/bash: line 1: missing-program: command not found\n'],
  ['KILL is 137', 'echo before; kill -KILL $$; echo never', 137, 'before\n'],
  ['TERM is 143', 'echo before; kill -TERM $$; echo never', 143, 'before\n'],
  ['SEGV is 139', 'kill -SEGV $$', 139, ''],
  ['nothing is printed', 'true', 0, ''],
  ['false is a result, not an error', 'false', 1, ''],
  ['/dev/stderr can be written', 'echo one > /dev/stderr; echo two > /dev/stdout', 0, 'one\ntwo\n'],
  ['/dev/stderr can be written by tee', 'echo twice | tee /dev/stderr | cat', 0, 'twice\ntwice\n'],
  ['/dev/fd/2 can be written', 'echo one > /dev/fd/2; echo two > /proc/self/fd/1', 0, 'one\ntwo\n'],
  [
    'there is no terminal',
    'test -t 0 || test -t 1 || test -t 2 || (: < /dev/tty) 2> /dev/null || echo none',
    0,
    'none\n',
  ],
  [
    'standard output and standard error keep their order',
    'for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; bash -c "echo p$i; echo f$i >&2"; done',
    0,
    [1, 2, 3, 4, 5].map((i) => `o${i}\ne${i}\np${i}\nf${i}\n`).join(''),
  ],
  ['CRLF and newlines at the end are kept', "printf 'a\\r\\nb\\n\\n\\r\\n\\n'", 0, 'a\r\nb\n\n\r\n\n'],
  ['output without a newline at the end is kept', 'printf a', 0, 'a'],
  ['spaces around the output are kept', "printf '\\n \\t a \\n '", 0, '\n \t a \n '],
  ['NUL is kept', "printf 'a\\0b\\0'", 0, 'a\0b\0'],
  ['an escape sequence is kept', "printf '\\033[31mred\\033[0m\\a\\b'", 0, '\u001b[31mred\u001b[0m\u0007\b'],
  ['a byte order mark is kept', "printf '\\xef\\xbb\\xbfa'", 0, '\ufeffa'],
  ['bytes that are not UTF-8 become U+FFFD', "printf 'a\\xff\\xfeb\\xc3'", 0, 'a\ufffd\ufffdb\ufffd'],
  ['U+FFFD itself is kept', "printf '\\xef\\xbf\\xbd'", 0, '\ufffd'],
  ['a program whose reader leaves dies of SIGPIPE', 'yes | head -1; echo ${PIPESTATUS[0]}', 0, 'y\n141\n'],
  [
    'no signal is ignored',
    'grep -E "^Sig(Ign|Blk)" /proc/$$/status',
    0,
    'SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n',
  ],
  ['no start-up file is read', 'shopt -q login_shell; echo $? $- ${BASH_ENV-none}', 0, '1 hBc none\n'],
  ['a carriage return in the command is an ordinary character', 'echo a\r', 0, 'a\r\n'],
  ['a comment alone does nothing', '# nothing', 0, ''],
  ['only white space does nothing', ' \n\t\n ', 0, ''],
  ['unicode is kept', 'x=\'你好 🌍 é\'; echo "$x ${#x}"', 0, '你好 🌍 é 6\n'],
];

describeModes('the shell', (emulator) => {
  const conversation = async (id = 'A', env = randomId()) => {
    const caller = callerFor(emulator(), env, id);
    await caller.init();
    return caller;
  };

  it.each(COMMANDS)('%s, and the next command is not affected', async (_what, command, exitCode, output) => {
    const caller = await conversation();
    expect(await caller.bash(command)).toEqual(bashResult(output, { exitCode }));
    expect(await caller.bash('echo next')).toEqual(bashResult('next\n'));
  });

  it('answers 2 and the message of bash for a quote that is not closed', async () => {
    const caller = await conversation();
    const { output, ...rest } = await caller.bash('echo "open');
    expect(rest).toEqual({ ...bashResult('', { exitCode: 2 }), output: undefined });
    expect(output).toContain('/bin/bash: -c: line 1: unexpected EOF while looking for matching `"\'\n');
    expect(await caller.bash('echo next')).toEqual(bashResult('next\n'));
  });

  it('is a fresh one for each command', async () => {
    const caller = await conversation();
    await caller.bash('cd /; x=1; export y=1; umask 077; alias z=ls; set -u; trap "echo trapped" EXIT');
    expect((await caller.bash('echo "${PWD##*/} [$x] [$y] $(umask)"')).output).toBe('A [] [] 0022\n');
  });

  it.each([
    ['echo', (text: string) => `echo ${text} | wc -c`, `${MEBIBYTE + 1}\n`],
    ['here-document', (text: string) => `wc -c <<'EOF'\n${text}\nEOF\n`, `${MEBIBYTE + 1}\n`],
    ['comment', (text: string) => `# ${text}\necho done; exit 3`, 'done\n'],
  ])('takes a command of a mebibyte (%s)', async (kind, command, output) => {
    const caller = await conversation();
    const exitCode = kind === 'comment' ? 3 : 0;
    // A program's argument has a limit of 128 KiB, a builtin's has none.
    expect(await caller.bash(command('x'.repeat(MEBIBYTE)))).toEqual(bashResult(output, { exitCode }));
    expect(await caller.bash('echo next')).toEqual(bashResult('next\n'));
  });

  it.each([99_999, 100_000, 100_001, 131_071, 131_072])('takes a command of %i bytes', async (length) => {
    const caller = await conversation();
    const [before, after] = ["echo '", "' | md5sum; cat; echo $0 $#; ls -A; exit 7"];
    const text = 'é'.repeat(length).slice(0, Math.floor((length - before.length - after.length) / 2));
    const padding = 'x'.repeat(length - Buffer.byteLength(before + text + after));
    const short = await caller.bash(`${before}short${after}`);
    const long = await caller.bash(before + text + padding + after);
    expect(long).toEqual(bashResult(expect.stringMatching(/^[0-9a-f]{32} {2}-\n\/bin\/bash 0\n$/), { exitCode: 7 }));
    expect(long.output.slice(32)).toBe(short.output.slice(32));
  });

  it.each(['', ` # ${'x'.repeat(150_000)}`])('gives the command no descriptors but the three', async (padding) => {
    const caller = await conversation();
    // Descriptor 3 is the listing of the directory itself.
    const { output } = await caller.bash(`ls /proc/self/fd${padding}`);
    expect(output).toBe('0\n1\n2\n3\n');
  });

  it("marks each call and hides the instance's channel", async () => {
    const caller = await conversation();
    const [one, two] = await Promise.all([caller.bash('env'), caller.bash('env')]);
    const marker = (output: string) => /^SCF_SANDBOX_CALL=(.+)$/m.exec(output)?.[1];
    expect(marker(one.output)).toBeDefined();
    expect(marker(one.output)).not.toBe(marker(two.output));
    expect(one.output).not.toMatch(/^NODE_CHANNEL/m);
  });

  it('runs 100 commands of one conversation at once without cross-talk', async () => {
    const caller = await conversation();
    const ids = Array.from({ length: 100 }, (_, index) => index);
    const results = await Promise.all(ids.map((id) => caller.bash(`echo ${id}; pwd; echo ${id} >&2; exit ${id}`)));
    const workspace = `/tmp/workspace/${caller.sessionId}/A`;
    expect(results).toEqual(ids.map((id) => bashResult(`${id}\n${workspace}\n${id}\n`, { exitCode: id })));
  });

  it('runs 100 commands of 20 conversations at once without cross-talk', async () => {
    const env = randomId();
    const callers = await Promise.all(Array.from({ length: 20 }, (_, index) => conversation(`c${index}`, env)));
    const calls = Array.from({ length: 5 }, (_, call) => callers.map((caller) => ({ caller, call }))).flat();
    const results = await Promise.all(
      calls.map(({ caller, call }) => caller.bash(`echo ${call} >> calls; echo ${caller.conversationId} ${call}; pwd`)),
    );
    expect(results).toEqual(
      calls.map(({ caller: { conversationId }, call }) =>
        bashResult(`${conversationId} ${call}\n/tmp/workspace/${env}/${conversationId}\n`),
      ),
    );
    const files = await Promise.all(callers.map((caller) => caller.bash('sort calls')));
    expect(files).toEqual(callers.map(() => bashResult('0\n1\n2\n3\n4\n')));
  });
});
