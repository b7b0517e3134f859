import { existsSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { createEmulator } from '../../dist/emulator/index.js';
import { isRunning } from '../../emulator/processes.js';
import {
  type Caller,
  callerFor,
  eventually,
  namespacesHold,
  optionsFor,
  randomId,
  stateOf,
  useEmulator,
  useTempDir,
} from '../helpers/emulator.js';
import { makeNeedle, namesFilesWith } from '../helpers/needle.js';
import { pidsWithArgument } from '../helpers/processes.js';

type Victim = { env: string; root: string; hostRoot: string; pid: number; sleepTime: string };

const secret = makeNeedle();

/**
 * What the attacker runs. Whatever it prints was reached. `own`: the same words, run by the victim in
 * its own environment, must print something, or the attack proves nothing.
 */
type Attack = { by: string; own: boolean; script: (victim: Victim) => string };

const search = namesFilesWith(secret);
const files = ({ root, hostRoot }: Victim) => `${root}/V/secret ${hostRoot}/V/secret`;

/** Every way into another place, each tried with `inside` as what is then searched. */
const entrances = (inside: string) => `
  exec 2>/dev/null
  chroot / ${inside}
  for root in /proc/[0-9]*/root; do chroot "$root" ${inside}; done
  for flags in -m -p -i -U -Ur -Urm -Urmpf '-Urmpf --mount-proc' -UrmC; do unshare $flags ${inside}; done
  for flags in -U -Ur '-Urmpf --mount-proc'; do setpriv --reuid 1234 --regid 1234 --clear-groups unshare $flags ${inside}; done
  for pid in 1 $PPID; do nsenter -t $pid -a ${inside}; nsenter -t $pid -m ${inside}; done`;

const unmountAll = `
  tac /proc/mounts | while read -r _ mount _; do
    umount "$mount" && echo "unmounts $mount"
    umount -l "$mount" && echo "unmounts $mount lazily"
  done 2>/dev/null`;

const mountAll = `
  for type in proc sysfs tmpfs devtmpfs overlay ext4 cgroup2; do
    mount -t $type none /var/tmp && echo "mounts $type"
    awk '$4 {print $4}' /proc/partitions | while read -r disk; do
      mount -t $type "/dev/$disk" /var/tmp && echo "mounts $disk"
    done
  done 2>/dev/null
  for directory in / /usr /etc/passwd /proc /proc/sys /tmp; do
    mount --bind "$directory" /var/tmp && echo "mounts $directory"
    mount -o remount,rw "$directory" && echo "remounts $directory"
    mount -o remount,rw,bind "$directory" && echo "remounts $directory"
    mount --move "$directory" /var/tmp && echo "moves $directory"
  done 2>/dev/null`;

const makeDevices = `
  awk '$1 ~ /[0-9]/ {print $1, $2, $4}' /proc/partitions | while read -r major minor name; do
    mknod "/tmp/$name" b "$major" "$minor" && echo "makes $name"
    ( exec 3<"/tmp/$name" ) && echo "opens $name"
  done 2>/dev/null
  for minor in 1 2 3 4 11; do mknod /tmp/$minor c 1 $minor && echo "makes 1:$minor"; done 2>/dev/null`;

const ATTACKS: Attack[] = [
  { by: 'by its path', own: true, script: (victim) => `${search} ${files(victim)}` },
  {
    by: 'through an absolute link in the own workspace',
    own: true,
    script: (victim) =>
      `ln -s ${victim.root} a; ln -s ${victim.hostRoot} b; ln -s / c; ${search} {a,b}/V/secret c${victim.root}/V/secret`,
  },
  {
    by: 'through a relative link in the own workspace',
    own: true,
    script: ({ env, hostRoot }) =>
      `ln -s ../../${env} d; ln -s ../../../..${hostRoot} e; ${search} {d,e}/V/secret ../../${env}/V/secret`,
  },
  {
    by: 'through the roots of processes',
    own: true,
    script: ({ root, hostRoot }) => `${search} /proc/[0-9]*/root${root}/V/secret /proc/[0-9]*/root${hostRoot}/V/secret`,
  },
  { by: 'through the working directories of processes', own: true, script: () => `${search} /proc/[0-9]*/cwd/secret` },
  { by: 'through open files of processes', own: true, script: () => `${search} /proc/[0-9]*/fd/*` },
  { by: 'through the environments of processes', own: true, script: () => `${search} /proc/[0-9]*/environ` },
  {
    by: 'through the tasks of processes',
    own: true,
    script: () => `${search} /proc/[0-9]*/task/[0-9]*/{environ,cwd/secret,fd/*}`,
  },
  {
    by: 'by unmounting all that is mounted',
    own: false,
    script: (victim) => `${unmountAll}\n${search} ${files(victim)}`,
  },
  { by: 'by mounting', own: false, script: (victim) => `${mountAll}\n${search} ${files(victim)}` },
  { by: 'by making device nodes', own: false, script: () => makeDevices },
  {
    by: 'by chroot, unshare and nsenter',
    own: true,
    script: (victim) => entrances(`${search} ${files(victim)} /proc/[0-9]*/environ`),
  },
  {
    by: 'by unmounting in namespaces of its own',
    own: false,
    script: (victim) =>
      `cat >attack.sh <<'end'${unmountAll}\n${search} ${files(victim)}\nend\n${entrances('bash attack.sh')}`,
  },
];

describe.runIf(namespacesHold)('the wall between environments', () => {
  const emulator = useEmulator('namespace');
  const env = randomId('victim');
  const owner = () => callerFor(emulator(), env, 'V');
  let victim: Victim;

  const attacker = async (): Promise<Caller> => {
    const caller = callerFor(emulator(), randomId('attacker'), 'A');
    await caller.init();
    return caller;
  };

  beforeAll(async () => {
    const sleepTime = `3600.${Date.now()}`;
    await owner().init({ TENCENTCLOUD_SECRETKEY: secret.value });
    // A process of the environment holds the file open, works beside it and has the variables.
    await owner().bash(`echo ${secret.value} > secret; exec 9<secret; sleep ${sleepTime} &`);
    const [pid] = pidsWithArgument(sleepTime);
    if (pid === undefined) throw new Error('the process of the victim does not run');
    const { hostPath } = await stateOf(emulator(), env);
    victim = { env, root: `/tmp/workspace/${env}`, hostRoot: hostPath, pid, sleepTime };
    expect(await readFile(path.join(hostPath, 'V/secret'), 'utf8')).toBe(`${secret.value}\n`);
  });

  it.each(ATTACKS)('keeps files and credentials out of reach $by', async ({ own, script }) => {
    const { output } = await (await attacker()).bash(script(victim), 100_000);
    expect(output).toBe('');
    if (own) expect((await owner().bash(script(victim), 100_000)).output).toMatch(/secret|environ|\/fd\//);
  });

  it('hides and protects processes of another environment', async () => {
    const intruder = await attacker();
    const list = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -x '[3]600.*'";
    expect((await owner().bash(list)).output).toBe(`${victim.sleepTime}\n`);
    expect((await intruder.bash(list)).output).toBe('');
    // Not by the shell's own kill: it refuses nothing, and neither may the kernel find the process.
    await intruder.bash(`test -e /proc/${victim.pid} || kill -9 ${victim.pid}`);
    expect(isRunning(victim.pid)).toBe(true);
  });

  it('gives each environment a /tmp of its own, which is not that of the machine', async () => {
    const name = `/tmp/${randomId('x')}`;
    const intruder = await attacker();
    await owner().bash(`echo mine > ${name}`);
    expect((await owner().bash(`cat ${name}`)).output).toBe('mine\n');
    expect(await intruder.bash(`cat ${name}`)).toMatchObject({ exitCode: 1 });
    expect(existsSync(name)).toBe(false);
    expect((await intruder.bash('ls -A /tmp')).output).toBe('workspace\n');
  });

  it("keeps every variable of one environment out of another's commands", async () => {
    expect((await owner().bash('env')).output).toContain(secret.value);
    expect((await (await attacker()).bash('env')).output).not.toContain(secret.value);
  });
});

describe.runIf(namespacesHold)('what a session leaves in the place of its directories', () => {
  const outside = useTempDir();

  it.each([
    ['of all workspaces', (host: string) => `mv /tmp/workspace /tmp/w; ln -s ${host} /tmp/workspace`],
    ['of its own workspace', (host: string, root: string) => `mv ${root} /tmp/w; ln -s ${host} ${root}`],
    ['of its home', (host: string) => `mv ~ /home/h; ln -s ${host} /home/sandbox`],
    [
      'of files in its home',
      (host: string) => `cd ~; rm .[a-z]*; ln -s ${host}/new .npmrc; ln -s ${host}/new .profile`,
    ],
  ])('is not followed by the emulator: a link in the place %s', async (_place, plant) => {
    const env = randomId();
    const host = path.join(outside(), randomId('host'));
    await mkdir(path.join(host, env, 'kept'), { recursive: true });
    const emulator = await createEmulator(optionsFor('namespace'));
    try {
      const caller = callerFor(emulator, env, 'A');
      const { workspace } = await caller.init();
      await caller.bash(plant(host, path.dirname(workspace)));
      await replaceInstance(emulator, env);
      await caller.request('/health');
      await caller.bash('true');
    } finally {
      await emulator.close();
    }
    expect(existsSync(path.join(host, env, 'kept'))).toBe(true);
    expect(existsSync(path.join(host, 'new'))).toBe(false);
  });
});

/** Lets a session's instance crash; its files are put back and given to the next one. */
async function replaceInstance(emulator: { url: string }, env: string): Promise<void> {
  const { instance } = await stateOf(emulator, env);
  if (!instance || instance.pid <= 1) throw new Error('the session has no instance');
  process.kill(instance.pid, 'SIGKILL');
  await eventually('the instance has ended', async () => (await stateOf(emulator, env)).instance === null);
}
