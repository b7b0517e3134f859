import { expect, it } from 'vitest';
import { argvFor, startCli } from '../helpers/cli.js';
import { callerFor, describeModes, eventually, randomId } from '../helpers/emulator.js';
import { followRequests } from '../helpers/live-events.js';

const REFUSED = '"code":"ACCESS_DENIED"';

/** Instances share the network of the machine, so programs in them reach the emulator's port. */
describeModes('a program inside an instance', (emulator, mode) => {
  async function attackerAndVictim() {
    const attacker = callerFor(emulator(), randomId(), 'attacker');
    const victim = callerFor(emulator(), randomId(), 'victim');
    await Promise.all([attacker.init(), victim.init()]);
    await victim.bash('echo secret > file');
    return { attacker, victim };
  }

  const curl = (sessionId: string, command: string) =>
    `curl -s ${emulator().url}/api/tools/bash -H 'X-Cloudbase-Session-Id: ${sessionId}' -H 'X-Conversation-Id: victim' -H 'Content-Type: application/json' -d '{"command":"${command}"}'`;

  it("is refused when it calls the emulator with another environment's header", async () => {
    const { attacker, victim } = await attackerAndVictim();
    const { output } = await attacker.bash(curl(victim.sessionId, 'cat file'));
    expect(output).toContain(REFUSED);
    expect(output).not.toContain('secret');
  });

  it('is refused at the control plane, at the token endpoint and at /health', async () => {
    const { attacker } = await attackerAndVictim();
    for (const path of ['/_emulator/state', '/_emulator/events', '/health', '/auth/v1/token/clientCredential']) {
      expect((await attacker.bash(`curl -s -m 20 ${emulator().url}${path}`)).output).toContain(REFUSED);
    }
  });

  it('is refused when it has left its command, its process group and its session behind', async () => {
    const { attacker, victim } = await attackerAndVictim();
    await attacker.bash(
      `(setsid bash -c "${curl(victim.sessionId, 'cat file').replaceAll('"', '\\"')} > answer.tmp; mv answer.tmp answer" &) > /dev/null 2>&1`,
    );
    await eventually('the answer is there', async () => (await attacker.bash('ls answer')).exitCode === 0);
    expect((await attacker.bash('cat answer')).output).toContain(REFUSED);
  });

  it('is not heard when it closes its connection before it can be recognised', async () => {
    const { attacker, victim } = await attackerAndVictim();
    const { hostname, port } = new URL(emulator().url);
    const body = '{"command":"touch reached"}';
    const request = [
      'POST /api/tools/bash HTTP/1.1',
      `Host: ${hostname}:${port}`,
      `X-Cloudbase-Session-Id: ${victim.sessionId}`,
      'X-Conversation-Id: victim',
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      '',
      body,
    ].join('\\r\\n');
    const live = await followRequests(emulator());
    await attacker.bash(
      `for i in {1..50}; do exec 3<>/dev/tcp/${hostname}/${port}; printf '${request}' >&3; exec 3>&-; done`,
    );
    const calls = () => live.requests().filter(({ path, status }) => path === '/api/tools/bash' && status === 403);
    await eventually('all fifty are refused', () => calls().length === 50);
    await live.stop();
    expect((await victim.bash('ls')).output).toBe('file\n');
  });

  it('is refused when it hides its end of the connection in a message while it is judged', async () => {
    const { attacker, victim } = await attackerAndVictim();
    const { hostname, port } = new URL(emulator().url);
    const script = `
import socket, time
a, b = socket.socketpair(socket.AF_UNIX)
s = socket.create_connection(("${hostname}", ${port}))
body = '{"command":"cat file"}'
socket.send_fds(a, [b"x"], [s.fileno()])
s.sendall(("POST /api/tools/bash HTTP/1.1\\r\\nHost: ${hostname}:${port}\\r\\nX-Cloudbase-Session-Id: ${victim.sessionId}\\r\\nX-Conversation-Id: victim\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body).encode())
s.close()
time.sleep(1)
_, fds, _, _ = socket.recv_fds(b, 1, 1)
print(socket.socket(fileno=fds[0]).recv(4096).decode())
`;
    const { output } = await attacker.bash(`cat > attack.py <<'END'\n${script}\nEND\npython3 attack.py`);
    expect(output).toContain(REFUSED);
    expect(output).not.toContain('secret');
  });

  it('is refused by another emulator of the machine too', async () => {
    const { attacker } = await attackerAndVictim();
    const other = await startCli(argvFor(mode));
    const victim = callerFor(other, randomId(), 'victim');
    await victim.init();
    const { output } = await attacker.bash(`curl -s ${other.url}/_emulator/state`);
    expect(output).toContain(REFUSED);
  });

  it('does not keep callers outside from being served', async () => {
    const { victim } = await attackerAndVictim();
    const answers = await Promise.all(Array.from({ length: 20 }, () => victim.bash('cat file')));
    expect(new Set(answers.map(({ output }) => output))).toEqual(new Set(['secret\n']));
  });
});
