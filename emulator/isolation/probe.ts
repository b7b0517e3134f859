import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import type { InstanceDirectories, LaunchedInstance, Launcher } from './launcher.js';

export type ProbeResult = { holds: true } | { holds: false; reasons: string[] };

const PROBE_DEADLINE_MS = 10_000;
const SECRET = 'probe-secret';

/**
 * Tries a launcher by attack: two instances are started with the real command line, and a script in the
 * one tries to reach the other and the machine. Settings of the system are not read, since several
 * systems allow namespaces and then take their rights away.
 *
 * @param scratch Existing directory for the two instances; left empty.
 */
export async function probe(launcher: Launcher, scratch: string): Promise<ProbeResult> {
  const root = await mkdtemp(path.join(scratch, 'probe-'));
  const hostSocket = createServer((connection) => connection.end(SECRET));
  try {
    await new Promise<void>((resolve, reject) => {
      hostSocket.once('error', reject).listen(path.join(root, 's'), resolve);
    });
    return await attack(launcher, root);
  } catch (error) {
    return { holds: false, reasons: [error instanceof Error ? error.message : String(error)] };
  } finally {
    hostSocket.close();
    await rm(root, { recursive: true, force: true });
  }
}

async function attack(launcher: Launcher, root: string): Promise<ProbeResult> {
  const attacker = await makeInstance(root, 'a');
  const victim = await makeInstance(root, 'b');
  const env = { PATH: '/usr/bin:/bin', PROBE_ROOT: root, PROBE_HOST_PID: String(process.pid) };
  const victimRun = launcher.launch(victim, ['/bin/bash', '-c', 'echo ready; read -r _ < <(sleep 60)'], {
    PROBE_TOKEN: SECRET,
    ...env,
  });
  try {
    await firstOutput(victimRun);
    return await runAttack(launcher.launch(attacker, ['/bin/bash', '-c', ATTACK], env));
  } finally {
    victimRun.kill();
    await victimRun.ended;
  }
}

async function runAttack(run: LaunchedInstance): Promise<ProbeResult> {
  const timer = setTimeout(run.kill, PROBE_DEADLINE_MS);
  const [output, errors] = await Promise.all([
    run.child.stdout ? text(run.child.stdout) : '',
    run.child.stderr ? text(run.child.stderr) : '',
    run.ended,
  ]).finally(() => clearTimeout(timer));
  const lines = output.split('\n').filter((line) => line !== '');
  if (lines.at(-1) !== 'DONE') return { holds: false, reasons: [errors.trim() || 'the probe did not finish'] };
  const reasons = lines.slice(0, -1);
  return reasons.length === 0 ? { holds: true } : { holds: false, reasons };
}

async function makeInstance(root: string, name: string): Promise<InstanceDirectories> {
  const directories = {
    tmp: path.join(root, name, 'tmp'),
    home: path.join(root, name, 'home'),
    private: path.join(root, name, 'private'),
  };
  await Promise.all(Object.values(directories).map((directory) => mkdir(directory, { recursive: true })));
  await mkdir(path.join(directories.tmp, 'workspace', name), { recursive: true });
  await writeFile(path.join(directories.tmp, 'workspace', name, 'secret'), name === 'a' ? 'own' : SECRET);
  return directories;
}

function firstOutput(run: LaunchedInstance): Promise<void> {
  return new Promise((resolve, reject) => {
    let errors = '';
    run.child.stderr?.on('data', (chunk) => {
      errors += chunk;
    });
    run.child.once('error', reject);
    run.child.once('exit', () => reject(new Error(errors.trim() || 'the launcher ended at once')));
    run.child.stdout?.once('data', () => resolve());
  });
}

/** Prints one line for each thing that it could do and must not; `DONE` at the end. */
const ATTACK = `
exec 2>/dev/null
[ "$(cat /tmp/workspace/a/secret)" = own ] || echo 'cannot read its own workspace'
touch /tmp/workspace/a/new || echo 'cannot write its own workspace'
sees() { grep -q ${SECRET} "$1" && echo "reads another environment: $2"; }
sees /tmp/workspace/b/secret 'by path'
sees "$PROBE_ROOT/b/tmp/workspace/b/secret" 'by its path on the host'
for mount in "$PROBE_ROOT" /tmp /home /run /var /root /etc; do umount -l "$mount" && echo "unmounts $mount"; done
for root in /proc/[0-9]*/root /proc/[0-9]*/cwd; do sees "$root$PROBE_ROOT/b/tmp/workspace/b/secret" "through $root"; done
for environ in /proc/[0-9]*/environ; do sees "$environ" "through $environ"; done
kill -0 "$PROBE_HOST_PID" && [ "$PROBE_HOST_PID" != $$ ] && grep -q node "/proc/$PROBE_HOST_PID/comm" && echo 'sees processes of the host'
for file in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sysrq-trigger; do ( exec 3>>"$file" ) && echo "may write $file"; done
for directory in / /etc /usr /usr/bin /opt /proc/sys; do ( : > "$directory/.probe" ) && echo "may write in $directory"; done
mknod /tmp/disk b 8 0 && ( exec 3</tmp/disk ) && echo 'may open a disk'
mount -t tmpfs none /var && echo 'may mount'
[ -e "$PROBE_ROOT/s" ] && echo 'sees a socket of the host'
for file in /etc/shadow /var/run/docker.sock /run/dbus; do [ -e "$file" ] && echo "sees $file"; done
[ -z "$(ls -A /root)" ] || echo "sees files of root"
echo DONE
`;
