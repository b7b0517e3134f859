import { describe, expect, it } from 'vitest';
import { toLoggedCommand } from '../../../../emulator/instance/redact.js';

describe('a command as the log shows it', () => {
  it('is its first line, at most 200 characters', () => {
    expect(toLoggedCommand('echo one\necho two', {})).toBe('echo one');
    expect(toLoggedCommand('x'.repeat(500), {})).toBe('x'.repeat(200));
  });

  it.each([
    ['echo s3cr3t-value', 'echo ***'],
    ['echo first;echo s3cr3t', 'echo first;echo s3cr3t'],
    ['curl -H "Authorization: Bearer abc.def" x', 'curl -H "Authorization: Bearer ***" x'],
    ['curl -H "Authorization: Basic YTpi" x', 'curl -H "Authorization: Basic ***" x'],
    ['git clone https://user:hunter2@host.example/x', 'git clone https://***@host.example/x'],
    ['export MY_TOKEN=hunter2; ls', 'export MY_TOKEN=***; ls'],
    ['mysql --password hunter2 db', 'mysql --password *** db'],
    [`curl -d '{"secretKey": "hunter2"}' x`, `curl -d '{"secretKey": ***}' x`],
    ['export API_KEY="hunter2\nmore"', 'export API_KEY=***'],
  ])('hides what is secret: %j', (command, shown) => {
    expect(toLoggedCommand(command, { TENCENTCLOUD_SECRETKEY: 's3cr3t-value', PLAIN: 'first' })).toBe(shown);
  });

  it('hides a secret of several lines as a whole', () => {
    expect(toLoggedCommand('echo "line one\nline two" && ls', { DEPLOY_KEY: 'line one\nline two' })).toBe(
      'echo "***" && ls',
    );
  });

  it('hides the longer of two secrets that begin alike', () => {
    expect(toLoggedCommand('echo abcdef', { A_TOKEN: 'abcd', B_TOKEN: 'abcdef' })).toBe('echo ***');
  });

  it('hides a secret that the end of the line shown would cut', () => {
    const shown = toLoggedCommand(`${'x'.repeat(195)} s3cr3t-value`, { MY_SECRET: 's3cr3t-value' });
    expect(shown).toBe(`${'x'.repeat(195)} ***`);
  });

  it('looks at a line of a megabyte no further than it is shown', () => {
    expect(toLoggedCommand('a'.repeat(1_000_000), {})).toBe('a'.repeat(200));
  });
});
