import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toLoggedCommand } from '../../../../emulator/instance/redact.js';

const SECRET = 'hunter2-Zx9';

const ORDINARY = [
  'ls -la ..',
  'git status --short && git log --oneline -5',
  'npm install && npm test -- --run src/app.test.ts',
  'cd /tmp/workspace/env/A && cat package.json | head -20',
  'find . -name "*.ts" -not -path "./node_modules/*" | xargs wc -l',
  "sed -i 's/foo/bar/g' src/index.ts",
  'python3 -m http.server 8080',
  'curl -s http://localhost:3000/api/users?id=1',
  'git clone https://github.com/owner/name.git',
  'npm install @scope/name@1.2.3',
  'git remote add origin git@github.com:owner/name.git',
  'docker run -u 1000:1000 node:20',
  'echo $((1 + 2)) "a  b" \'c\' \\d',
  'cat tokenizer.py secrets.md passwords/readme.md',
  'x=1; for i in a b; do echo "$i=$x"; done',
  'mkdir -p "/tmp/workspace/env-1/你好"',
];

const REVEALING = [
  `export API_TOKEN=${SECRET}`,
  `TENCENTCLOUD_SECRETKEY=${SECRET} tcb deploy`,
  `TENCENTCLOUD_SECRETID='${SECRET}' tcb deploy`,
  `TENCENTCLOUD_SESSIONTOKEN="${SECRET}" tcb deploy`,
  `PGPASSWORD=${SECRET} psql`,
  `MYSQL_PWD=${SECRET} mysql`,
  `DB_PASS=${SECRET} node server.js`,
  `SIGNING_KEY=${SECRET} node server.js`,
  `PASSWORD="two words ${SECRET}" run`,
  `PASSWORD="with \\" quote ${SECRET}" run`,
  `PASSWORD=with\\ space${SECRET} run`,
  `PASSWORD="first line ${SECRET}\nsecond line" run`,
  `PASSWORD='first line ${SECRET}\nsecond line' run`,
  `tool --password ${SECRET}`,
  `tool --password=${SECRET}`,
  `tool --secret-key "${SECRET}"`,
  `tool --api-key ${SECRET}`,
  `tool --access-key=${SECRET}`,
  `curl -H "Authorization: Bearer ${SECRET}" https://api.example.com`,
  `curl -H 'authorization: basic ${SECRET}' https://api.example.com`,
  `curl -H "Authorization: token ${SECRET}" https://api.example.com`,
  `curl -H "X-Api-Key: ${SECRET}" https://api.example.com`,
  `curl -H "X-Auth-Token: ${SECRET}" https://api.example.com`,
  `curl -u anna:${SECRET} https://api.example.com`,
  `curl --user "anna:${SECRET}" https://api.example.com`,
  `curl "https://api.example.com/?a=1&access_token=${SECRET}&b=2"`,
  `curl -d '{"name":"anna","password":"${SECRET}"}' https://api.example.com`,
  `curl -d '{"password": "with \\" quote ${SECRET}"}' https://api.example.com`,
  `curl -d "{\\"name\\":\\"anna\\",\\"password\\":\\"${SECRET}\\"}" https://api.example.com`,
  `git clone https://anna:${SECRET}@example.com/repo.git`,
  `git clone https://${SECRET}@example.com/repo.git`,
  `git clone https://anna:at@${SECRET}@example.com/repo.git`,
  `psql postgres://anna:${SECRET}@localhost:5432/db`,
];

describe('a logged command', () => {
  it.each(ORDINARY)('is unchanged when it is ordinary: %s', (command) => {
    expect(toLoggedCommand(command, { TENCENTCLOUD_SECRETKEY: SECRET, CLOUDBASE_ENV_ID: 'env' })).toBe(command);
  });

  it.each(REVEALING)('hides what looks like a credential: %s', (command) => {
    const logged = toLoggedCommand(command, {});
    expect(logged).toContain('***');
    expect(logged).not.toContain(SECRET);
  });

  it('says the rest of a command that holds a credential', () => {
    expect(toLoggedCommand(`curl -d '{"password":"${SECRET}","a":1}' https://example.com`, {})).toBe(
      'curl -d \'{"password":***,"a":1}\' https://example.com',
    );
    expect(toLoggedCommand(`git clone https://anna:${SECRET}@example.com/repo.git x`, {})).toBe(
      'git clone https://***@example.com/repo.git x',
    );
  });

  it("hides the values of the session's secret variables wherever they stand", () => {
    const secret = fc.string({ minLength: 4, maxLength: 40 }).filter((value) => !/[*\s]/.test(value));
    const name = fc.constantFrom('TENCENTCLOUD_SECRETKEY', 'GIT_TOKEN', 'DB_PASSWORD', 'API_KEY', 'DB_PASS', 'X_PWD');
    const around = fc.string({ unit: fc.constantFrom('a', ' ', '"', '/', '='), maxLength: 220 });
    fc.assert(
      fc.property(name, secret, around, around, (variable, value, before, after) => {
        fc.pre(!`${before}***${after}`.includes(value));
        expect(toLoggedCommand(`${before}${value}${after}`, { [variable]: value })).not.toContain(value);
      }),
    );
  });

  it('hides a value of several lines', () => {
    expect(toLoggedCommand('echo "first part\nsecond part" done', { MY_SECRET: 'first part\nsecond part' })).toBe(
      'echo "***" done',
    );
  });

  it('hides the longer of two values that begin alike', () => {
    expect(toLoggedCommand('echo secret-longer', { A_KEY: 'secret', B_KEY: 'secret-longer' })).toBe('echo ***');
  });

  it('shows values of other variables and values too short to be a secret', () => {
    expect(toLoggedCommand('echo value abc', { NAME: 'value', TOKEN: 'abc' })).toBe('echo value abc');
  });

  it('is the first line, at most 200 characters of it', () => {
    expect(toLoggedCommand('first\nsecond', {})).toBe('first');
    expect(toLoggedCommand('x'.repeat(201), {})).toBe('x'.repeat(200));
  });

  it('shows no part of a secret that is cut at 200 characters, or far behind', () => {
    for (let before = 150; before < 205; before++) {
      const start = 'x'.repeat(before);
      expect(toLoggedCommand(`${start} ${SECRET}`, { A_TOKEN: SECRET })).not.toContain('hunter');
      expect(toLoggedCommand(`${start} TOKEN=${SECRET}`, {})).not.toContain('hunter');
    }
    const far = `TOKEN=${'x'.repeat(980)} `;
    for (let more = 0; more < 40; more++)
      expect(toLoggedCommand(`${far}${' '.repeat(more)}https://anna:${SECRET}@host/`, {})).not.toContain('hunter');
  });

  it.each(['a', 'a.', 'token', 'token-', 'token ', ' ', '"', 'x://', 'a_key', '\\"'])(
    'is found at once in megabytes of %j',
    (text) => {
      const startedAt = performance.now();
      expect(toLoggedCommand(`echo ${text.repeat(1_000_000)}`, {}).length).toBeLessThanOrEqual(200);
      expect(performance.now() - startedAt).toBeLessThan(5_000);
    },
  );
});
