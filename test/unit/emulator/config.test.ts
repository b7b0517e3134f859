import { homedir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { isLoopback, parseConfig } from '../../../emulator/config.js';

const LOOPBACK = ['localhost', '127.0.0.1', '127.1.2.3', '::1', '::ffff:127.0.0.1'];
const REACHABLE = ['0.0.0.0', '::', '192.168.1.5', '10.0.0.1', 'example.com', '127.evil.example', '1127.0.0.1', '::2'];

/** Settings that the errors of a parse name. */
function refusedSettings(options: Record<string, unknown>): string[] {
  try {
    parseConfig(options);
    return [];
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw error;
    return error.issues.flatMap((issue) => (issue.code === 'unrecognized_keys' ? issue.keys : [String(issue.path[0])]));
  }
}

describe('the configuration', () => {
  it('has a default for every setting', () => {
    expect(parseConfig({})).toEqual({
      host: '127.0.0.1',
      port: 9000,
      dataDir: path.join(homedir(), '.scf-sandbox'),
      ephemeral: false,
      isolation: 'auto',
      auth: 'lenient',
      tokenTtl: 432_000,
      allowedHost: [],
      allowedOrigin: [],
      passEnv: [],
      strictFields: false,
      cancelOnDisconnect: false,
      log: 'auto',
    });
  });

  it('cannot be changed', () => {
    expect(Object.isFrozen(parseConfig({}))).toBe(true);
    expect(Object.isFrozen(parseConfig({ host: '0.0.0.0' }))).toBe(true);
  });

  it('takes numbers as the command line writes them, and makes the data directory absolute', () => {
    const config = parseConfig({ port: '8080', tokenTtl: '60', dataDir: 'some/where' });
    expect(config).toMatchObject({ port: 8080, tokenTtl: 60, dataDir: path.resolve('some/where') });
  });

  it.each(LOOPBACK)('leaves auth to the user on %s', (host) => {
    expect(parseConfig({ host }).auth).toBe('lenient');
    expect(parseConfig({ host, auth: 'strict' }).auth).toBe('strict');
  });

  it.each(REACHABLE)('forces strict auth on %s', (host) => {
    expect(parseConfig({ host, auth: 'lenient' }).auth).toBe('strict');
  });

  it.each<[string, unknown]>([
    ['host', ''],
    ['port', 'nine'],
    ['port', 65_536],
    ['port', -1],
    ['port', 80.5],
    ['dataDir', ''],
    ['isolation', 'some'],
    ['auth', 'none'],
    ['tokenTtl', 0],
    ['tokenTtl', '1h'],
    ['credentials', { secretId: 'id' }],
    ['credentials', { secretId: '', secretKey: 'key' }],
    ['allowedHost', ['']],
    ['allowedOrigin', ['evil.example']],
    ['allowedOrigin', ['*']],
    ['allowedOrigin', ['null']],
    // Their origin is null, which every sandboxed page has.
    ['allowedOrigin', ['file:///index.html']],
    ['allowedOrigin', ['data:text/html,x']],
    ['passEnv', ['A-B']],
    ['passEnv', ['A=1']],
    ['strictFields', 'yes'],
    ['log', 'xml'],
    ['unknownSetting', 1],
  ])('refuses %s: %j and names the setting', (name, value) => {
    expect(refusedSettings({ [name]: value })).toEqual([name]);
  });

  it('names every setting that is wrong', () => {
    expect(refusedSettings({ port: 'x', auth: 'x', log: 'x' })).toEqual(['port', 'auth', 'log']);
  });
});

describe('a loopback address', () => {
  it.each(LOOPBACK)('is %s', (host) => expect(isLoopback(host)).toBe(true));
  it.each([...REACHABLE, '', '127.0.0.1.evil.example'])('is not %j', (host) => expect(isLoopback(host)).toBe(false));
});
