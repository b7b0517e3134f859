import { expect, it } from 'vitest';
import { callerFor, describeModes, eventually, randomId } from '../helpers/emulator.js';
import { followRequests } from '../helpers/live-events.js';

const REFUSED = '"code":"ACCESS_DENIED"';

/** Instances share the network of the machine, so programs in them reach the emulator's port. */
describeModes('a program inside an instance', (emulator) => {
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

  it('does not keep callers outside from being served', async () => {
    const { victim } = await attackerAndVictim();
    const answers = await Promise.all(Array.from({ length: 20 }, () => victim.bash('cat file')));
    expect(new Set(answers.map(({ output }) => output))).toEqual(new Set(['secret\n']));
  });
});
