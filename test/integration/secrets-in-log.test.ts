import { describe, expect, it } from 'vitest';
import { startCli } from '../helpers/cli.js';
import { eventually, randomId } from '../helpers/emulator.js';
import { askForToken, basic, callWith, fetchToken } from '../helpers/tokens.js';

const SECRETS = {
  secretKey: 'pair-secret-0001',
  variable: 'variable-secret-0002',
  severalLines: 'line-secret-0003\nline-secret-0004',
  bearer: 'bearer-secret-0005',
  password: 'password-secret-0006',
  refused: 'refused-secret-0007',
};
const COMMANDS = [
  `echo ${SECRETS.variable}`,
  `echo '${SECRETS.severalLines}'`,
  `: curl -H "Authorization: Bearer ${SECRETS.bearer}" x`,
  `: git clone https://user:${SECRETS.password}@host.example/repository`,
  `: ${'x'.repeat(190)} ${SECRETS.variable}`,
];

describe('the log of the command line', () => {
  it('says what happened and holds no token and no secret', async () => {
    const cli = await startCli(['--ephemeral', '--auth', 'strict']);
    const session = randomId('log');
    const pair = basic(`AKID:${SECRETS.secretKey}`);
    const token = await fetchToken(cli.url, `AKID:${SECRETS.secretKey}`);
    await askForToken(cli.url, basic(`:${SECRETS.refused}`));
    expect((await callWith(cli.url, `Bearer ${SECRETS.refused}`)).status).toBe(401);
    const call = async (path: string, body: unknown) => {
      const headers = {
        Authorization: `Bearer ${token}`,
        'X-Cloudbase-Session-Id': session,
        'Content-Type': 'application/json',
      };
      const init = { method: 'POST', headers, body: JSON.stringify(body) };
      expect((await fetch(`${cli.url}${path}?token=${token}`, init)).status).toBe(200);
    };
    const env = { TENCENTCLOUD_SECRETKEY: SECRETS.variable, DEPLOY_KEY: SECRETS.severalLines };
    await call('/api/session/init', { env });
    for (const command of COMMANDS) await call('/api/tools/bash', { command });
    const logged = () => cli.lines.filter(({ path }) => path === '/api/tools/bash');
    await eventually('every command is logged', () => logged().length === COMMANDS.length);
    cli.child.kill('SIGTERM');
    await cli.ended;

    expect(logged().map(({ command }) => command)).toEqual([
      'echo ***',
      "echo '***'",
      ': curl -H "Authorization: Bearer ***" x',
      ': git clone https://***@host.example/repository',
      `: ${'x'.repeat(190)} ***`,
    ]);
    const secrets = [token, pair, ...Object.values(SECRETS).flatMap((secret) => secret.split('\n'))];
    for (const secret of secrets) expect(cli.output()).not.toContain(secret);
    expect(cli.lines.filter(({ level }) => level === 'error')).toEqual([]);
  });
});
