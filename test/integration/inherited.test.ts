import { readlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { isRunning, sendSignal } from '../../emulator/processes.js';
import { argvFor, startCli } from '../helpers/cli.js';
import { callerFor, eventually, type Mode, namespacesHold, randomId, useTempDir } from '../helpers/emulator.js';
import { makeNeedle, namesFilesWith } from '../helpers/needle.js';
import { pidsWithArgument } from '../helpers/processes.js';

const MODES: Mode[] = namespacesHold ? ['namespace', 'none'] : ['none'];

describe("the emulator's own environment", () => {
  it.runIf(namespacesHold)('is nowhere inside, but for the variables named by --pass-env', async () => {
    const [planted, passed] = [makeNeedle(), makeNeedle()];
    const cli = await startCli([...argvFor('namespace'), '--pass-env', 'PASSED'], {
      env: { ...process.env, PLANTED: planted.value, PASSED: passed.value },
    });
    const caller = callerFor(cli, randomId(), 'A');
    await caller.init();
    const searchFor = async (needle: typeof planted) => {
      const search = namesFilesWith(needle);
      const { output } = await caller.bash(`
        exec 2>/dev/null
        env | grep -c '${needle.pattern}'
        ${search} /proc/[0-9]*/{environ,cmdline}
        find /proc/1 -maxdepth 1 -type f -not -name mem -not -name pagemap -exec ${search} {} +
        ${search} -r /run /tmp ~ /etc /var`);
      return output.trim().split('\n');
    };
    expect(await searchFor(planted)).toEqual(['0']);
    // The same search finds what is inside, also in the environment of process 1.
    expect(await searchFor(passed)).toEqual(expect.arrayContaining(['1', '/proc/1/environ']));
  });

  it('reaches no command in mode none either', async () => {
    const planted = makeNeedle();
    const cli = await startCli(argvFor('none'), { env: { ...process.env, PLANTED: planted.value } });
    const caller = callerFor(cli, randomId(), 'A');
    const { output } = await caller.bash(
      `env | grep -c '${planted.pattern}'; ${namesFilesWith(planted)} /proc/self/environ`,
    );
    expect(output).toBe('0\n');
  });
});

describe.each(MODES)('descriptors that the emulator was started with [%s]', (mode) => {
  const directory = useTempDir();

  it('do not reach commands', async () => {
    const secret = path.join(directory(), 'secret');
    await writeFile(secret, 'content');
    const cli = await startCli(argvFor(mode), {
      redirections: `7<${directory()} 9<${secret} 40<${directory()} 41<${secret}`,
    });
    expect(readlinkSync(`/proc/${cli.pid}/fd/41`)).toBe(secret);
    const caller = callerFor(cli, randomId(), 'A');
    await caller.init();
    const commands = mode === 'namespace' ? '[0-9]*' : '{self,$$,$PPID}';
    const { output } = await caller.bash(`readlink /proc/${commands}/fd/*; ls /proc/self/fd`);
    expect(output).toContain('/dev/null');
    expect(output).not.toContain(directory());
    expect((await caller.bash(`cat /proc/${commands}/fd/*/secret`)).output).not.toContain('content');
    // Only the three standard ones, and that of the listing itself.
    expect((await caller.bash('ls /proc/self/fd')).output).toBe('0\n1\n2\n3\n');
  });
});

describe.runIf(namespacesHold)('an emulator that is killed', () => {
  it('takes all that ran inside along', async () => {
    const cli = await startCli(argvFor('namespace'));
    const caller = callerFor(cli, randomId(), 'A');
    const sleepTime = `3600.${Date.now()}`;
    await caller.bash(`nohup sleep ${sleepTime} & setsid env -i sleep ${sleepTime} & :`);
    await eventually('both run', () => pidsWithArgument(sleepTime).length === 2);
    const pids = pidsWithArgument(sleepTime);
    onTestFinished(() => {
      for (const pid of pids) if (pidsWithArgument(sleepTime).includes(pid)) sendSignal(pid, 'SIGKILL');
    });
    cli.child.kill('SIGKILL');
    await cli.ended;
    await eventually('nothing is left', () => pidsWithArgument(sleepTime).length === 0);
    expect(pids.filter(isRunning)).toEqual([]);
  });
});
