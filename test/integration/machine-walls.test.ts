import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { homedir } from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  type Caller,
  callerFor,
  namespacesHold,
  randomId,
  stateOf,
  useEmulator,
  useTempDir,
} from '../helpers/emulator.js';
import { makeNeedle, namesFilesWith } from '../helpers/needle.js';

const asRoot = process.getuid?.() === 0;

/** Words for a shell that print what each directory lets be made in it. */
const makeFilesIn = (...directories: string[]) =>
  `for d in ${directories.join(' ')}; do ( : > "$d/planted" ) && echo "writes in $d"; done 2>/dev/null`;

/** Words for a shell that print `connected`, or why not; `socket` is one word of theirs. */
const connectTo = (socket: string) =>
  `node -e 'require("net").connect(process.argv[1]).on("connect", () => console.log("connected") || process.exit()).on("error", (e) => console.log(e.code))' ${socket}`;

describe.runIf(namespacesHold)('the wall around the machine', () => {
  const emulator = useEmulator('namespace');
  const hostDirectory = useTempDir();
  let inside: Caller;

  beforeAll(async () => {
    inside = callerFor(emulator(), randomId(), 'A');
    await inside.init();
  });

  /** Writes a file on the host for the test at hand. */
  const plantOnHost = async (file: string, content: string) => {
    await writeFile(file, content, { flag: 'wx' });
    onTestFinished(() => rm(file, { force: true }));
  };

  it.each([
    ['writes nothing of the system', makeFilesIn('/', '/etc', '/usr', '/usr/bin', '/usr/local/bin', '/opt', '/lib')],
    [
      'changes no file of the system',
      'for f in /etc/passwd /etc/hosts /bin/bash; do ( : >> $f ) && echo $f; done 2>/dev/null',
    ],
    ['removes nothing of the system', 'rm -f /etc/hosts /usr/bin/env 2>/dev/null && echo removed'],
    [
      'writes no setting of the kernel',
      'find /proc/sys /proc/irq /proc/bus /proc/sysrq-trigger -type f -writable 2>/dev/null',
    ],
    ['opens no disk', 'find /dev -type b; for d in mem kmem port kmsg vda sda; do [ -e /dev/$d ] && echo $d; done'],
    ['reads no memory of the kernel', 'for f in kcore kmsg kpageflags; do head -c 1 /proc/$f; done 2>/dev/null'],
    [
      'sees no device but the harmless ones',
      "find /dev -type c -not -path '/dev/pts/*' | grep -vxE '/dev/(null|zero|full|u?random|tty|console)'",
    ],
    [
      'sees no secrets of the machine',
      'ls -d /etc/shadow* /etc/gshadow* /etc/ssl/private /etc/ssh /etc/sudoers* /home/*/.ssh ~/.ssh 2>/dev/null',
    ],
    ['sees no other home', 'ls -A /root; ls -A /home | grep -vx sandbox'],
    [
      'sees no services of the machine',
      "ls /run | grep -vxE 'emulator|lock|sandbox'; ls /var/run /var/lib /var/log /sys /boot /mnt /srv /media 2>/dev/null",
    ],
    ['sees no socket', 'find / -path /proc -prune -o -type s -print 2>/dev/null'],
  ])('%s', async (_title, script) => {
    expect((await inside.bash(script, 60_000)).output).toBe('');
  });

  it("reaches nothing in the developer's home", async () => {
    const secret = makeNeedle();
    const file = path.join(homedir(), `.planted-${randomId()}`);
    await plantOnHost(file, secret.value);
    expect((await inside.bash(`${namesFilesWith(secret)} -r ${homedir()} /home /root`, 30_000)).output).toBe('');
    await inside.bash(`mkdir -p ${homedir()}; echo changed > ${file}`);
    expect(await readFile(file, 'utf8')).toBe(secret.value);
  });

  it("sees no file in the machine's /tmp", async () => {
    const file = path.join(hostDirectory(), 'file');
    await plantOnHost(file, 'content');
    const { output } = await inside.bash(`cat ${file}; ls -d ${hostDirectory()} ${emulator().dataDir}`);
    expect(output.match(/No such file or directory/g)).toHaveLength(3);
  });

  it.each(asRoot ? ['/run', '/tmp'] : ['/tmp'])(
    'neither sees nor reaches a socket in %s of the machine',
    async (directory) => {
      const socket = path.join(directory, `${randomId()}.sock`);
      let connections = 0;
      const server = createServer((connection) => {
        connections++;
        connection.end('secret');
      });
      await new Promise<void>((resolve, reject) => server.once('error', reject).listen(socket, resolve));
      onTestFinished(() => new Promise((resolve) => server.close(() => resolve())));
      expect((await inside.bash(`ls ${socket}; ${connectTo(socket)}`)).output).toBe(
        `ls: cannot access '${socket}': No such file or directory\nENOENT\n`,
      );
      await inside.bash(`ln -sf ${socket} link`);
      expect((await inside.bash(connectTo('link'))).output).toBe('ENOENT\n');
      expect(connections).toBe(0);
    },
  );

  it("does not reach its own instance's socket", async () => {
    const { instance } = await stateOf(emulator(), inside.sessionId);
    const { output } = await inside.bash(`
      for socket in $(awk 'NF == 8 { print $8 }' /proc/net/unix | grep -a sandbox | sort -u) /run/sandbox/http.sock; do
        ${connectTo('"$socket"')}
      done
      find / -path /proc -prune -o -name '*${instance?.id}*' -print 2>/dev/null`);
    expect(output.split('\n').filter((line) => line !== '' && line !== 'ENOENT')).toEqual([]);
    expect(output).toContain('ENOENT');
  });

  it('shows no path of the machine in the command line of process 1', async () => {
    const { output } = await inside.bash("tr '\\0' ' ' </proc/1/cmdline");
    expect(output).toContain('/run/emulator/instance.mjs');
    for (const hostPath of [process.cwd(), homedir(), emulator().dataDir, path.dirname(hostDirectory()), '/tmp'])
      expect(output).not.toContain(hostPath);
  });
});

/** What a command may do to the directory in which the instance keeps its pipes. */
const DAMAGE: Array<[string, (target: string) => string]> = [
  ['removes all', () => 'rm -rf /run/sandbox/* /run/sandbox'],
  ['plants links to a file of the machine', (target) => forEachFifo(`ln -s ${target} "$f"`)],
  ['plants links to a file that is not there', (target) => forEachFifo(`ln -s ${target}-new "$f"`)],
  ['plants links to a device', () => forEachFifo('ln -s /dev/zero "$f"')],
  ['plants regular files', () => forEachFifo('echo planted > "$f"')],
  ['plants directories', () => forEachFifo('mkdir "$f"')],
  [
    'plants sockets',
    () => forEachFifo(`python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$f"`),
  ],
  ['plants one FIFO under all names', () => 'cd /run/sandbox; mkfifo x; for f in fifo*; do ln -f x "$f"; done'],
  ['takes the names that follow', (target) => takeFollowingNames(target)],
  ['takes away all rights', () => 'chmod 000 /run/sandbox/* /run/sandbox'],
];

function forEachFifo(plant: string): string {
  return `cd /run/sandbox; for f in fifo*; do rm "$f"; ${plant}; done`;
}

/** Should names be counted up, these are the next ones. */
function takeFollowingNames(target: string): string {
  return `cd /run/sandbox
    fifos=(fifo*) prefix=\${fifos%-*} call=\${SCF_SANDBOX_CALL%.*}
    for i in $(seq 0 300); do ln -s ${target}-new "$prefix-$i"; ln -s ${target}-new "$call.$i"; done 2>/dev/null; :`;
}

describe.runIf(namespacesHold)('an instance whose private directory a command damages', () => {
  const emulator = useEmulator('namespace');
  const hostDirectory = useTempDir();

  it.each(DAMAGE)('goes on with the next commands, and the machine takes no harm: it %s', async (_title, damage) => {
    const target = path.join(hostDirectory(), randomId('target'));
    await writeFile(target, 'content of the machine');
    const caller = callerFor(emulator(), randomId(), 'A');
    await caller.init();
    await caller.bash(damage(target));
    for (let i = 0; i < 40; i++)
      expect(await caller.bash(`echo ${i}`)).toMatchObject({ exitCode: 0, output: `${i}\n` });
    const long = `echo long\n: ${'x'.repeat(150_000)}`;
    expect(await caller.bash(long)).toMatchObject({ exitCode: 0, output: 'long\n' });
    expect(await readFile(target, 'utf8')).toBe('content of the machine');
    expect(existsSync(`${target}-new`)).toBe(false);
  });
});
