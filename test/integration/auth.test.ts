import { randomBytes } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { sign } from 'hono/jwt';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { createEmulator, type Emulator, type EmulatorOptions } from '../../dist/emulator/index.js';
import { eventually, optionsFor, useEmulator, useTempDir } from '../helpers/emulator.js';
import { AUTH_SESSION, askForToken, basic, callWith, fetchToken, refusal } from '../helpers/tokens.js';

const TC3 =
  'TC3-HMAC-SHA256 Credential=AKID/2026-04-07/tcb/tc3_request, SignedHeaders=content-type;host, Signature=0123, Timestamp=1';
const PREFIXES = ['', '/v1/functions/sandbox-shared'];
const OK = { status: 200, body: expect.objectContaining({ ok: true, sessionId: AUTH_SESSION }) };

const MISSING = refusal(
  401,
  'MISSING_CREDENTIALS',
  'Send Authorization: Bearer <token> from POST /auth/v1/token/clientCredential',
);
const NOT_BEARER = refusal(401, 'INVALID_CREDENTIALS', 'The Authorization header must be Bearer <token>');
const NOT_ISSUED = refusal(401, 'ACCESS_TOKEN_INVALID', 'The access token was not issued by this emulator');
const EXPIRED = refusal(401, 'ACCESS_TOKEN_EXPIRED', 'The access token has expired; ask for a new one');

/** An emulator for one test. */
async function startEmulator(options: EmulatorOptions): Promise<Emulator> {
  const emulator = await createEmulator({ ...optionsFor('none'), ...options });
  onTestFinished(() => emulator.close());
  return emulator;
}

// What an emulator that keeps its data leaves in mode none.
afterAll(() => rm(path.join('/tmp/workspace', AUTH_SESSION), { recursive: true, force: true }));

const inBase64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const inOneHour = () => Math.floor(Date.now() / 1000) + 3600;

describe('lenient auth', () => {
  const emulator = useEmulator('none');

  it.each([undefined, 'Bearer anything', 'Basic anything', 'anything'])('accepts Authorization %j', async (header) => {
    for (const prefix of PREFIXES) expect(await callWith(emulator().url, header, prefix)).toEqual(OK);
  });
});

describe('strict auth', () => {
  const emulator = useEmulator('none', { auth: 'strict' });

  it.each(PREFIXES)('asks for a token below %j', async (prefix) => {
    expect(await callWith(emulator().url, undefined, prefix)).toEqual(MISSING);
  });

  it.each(PREFIXES)('accepts a token of its own below %j', async (prefix) => {
    expect(await callWith(emulator().url, `Bearer ${await fetchToken(emulator().url)}`, prefix)).toEqual(OK);
    expect(await callWith(emulator().url, `bearer ${await fetchToken(emulator().url)}`, prefix)).toEqual(OK);
  });

  it.each(['Basic aWQ6a2V5', 'Bearer', 'Bearer a b', 'Token abc', 'abc'])(
    'refuses Authorization %j',
    async (header) => {
      expect(await callWith(emulator().url, header)).toEqual(NOT_BEARER);
    },
  );

  it('refuses a token that it did not issue', async () => {
    const [header = '', payload = '', signature = ''] = (await fetchToken(emulator().url)).split('.');
    const claims = { sub: 'id', iat: 1, exp: inOneHour() };
    const none = `${inBase64({ alg: 'none', typ: 'JWT' })}.${inBase64(claims)}.`;
    const forged = {
      random: randomBytes(32).toString('hex'),
      'signed with another key': await sign(claims, 'another key', 'HS256'),
      'signed with another algorithm': await sign(claims, 'another key', 'HS512'),
      'without a signature': none,
      'with its payload changed': `${header}.${inBase64({ ...claims, sub: 'other' })}.${signature}`,
      'with its header changed': `${inBase64({ alg: 'none', typ: 'JWT' })}.${payload}.${signature}`,
      'with its signature cut': `${header}.${payload}.`,
      'in two parts': `${header}.${payload}`,
    };
    for (const [what, token] of Object.entries(forged))
      expect({ what, ...(await callWith(emulator().url, `Bearer ${token}`)) }).toEqual({ what, ...NOT_ISSUED });
  });

  it('refuses without a token before it looks at anything else', async () => {
    for (const path of ['/nowhere', '/api/tools/nothing', '/v1/functions/-/health']) {
      const response = await fetch(emulator().url + path, { method: 'POST', body: '{' });
      expect({ status: response.status, body: await response.json() }).toEqual(MISSING);
    }
  });

  it('lets everybody ask for the health of the gateway', async () => {
    for (const prefix of PREFIXES) {
      const response = await fetch(`${emulator().url}${prefix}/health`);
      expect({ status: response.status, body: await response.json() }).toMatchObject({
        status: 200,
        body: { ok: true, status: 'ready', name: 'scf-sandbox-emulator' },
      });
    }
  });

  it('refuses a token once it has expired', async () => {
    const { url } = await startEmulator({ auth: 'strict', tokenTtl: 1 });
    const token = await fetchToken(url);
    const answers: number[] = [];
    await eventually('the token has expired', async () => {
      const { status } = await callWith(url, `Bearer ${token}`);
      answers.push(status);
      return status === 401;
    });
    expect(await callWith(url, `Bearer ${token}`)).toEqual(EXPIRED);
    expect(new Set(answers.slice(0, -1))).toEqual(new Set(answers.length > 1 ? [200] : []));
  });
});

describe('a token', () => {
  const directory = useTempDir();

  it('survives a restart on the same data directory, and is nothing to another', async () => {
    const dataDir = path.join(directory(), 'data');
    const options = { auth: 'strict', ephemeral: false, dataDir } as const;
    const first = await startEmulator(options);
    const token = await fetchToken(first.url);
    await first.close();
    const second = await startEmulator(options);
    expect(await callWith(second.url, `Bearer ${token}`)).toEqual(OK);
    const other = await startEmulator({ ...options, dataDir: path.join(directory(), 'other') });
    expect(await callWith(other.url, `Bearer ${token}`)).toEqual(NOT_ISSUED);
  });
});

describe('the token endpoint', () => {
  const emulator = useEmulator('none');

  it.each([
    ['a Basic pair', basic('id:key')],
    ['a Basic pair whose key has a colon', basic('id:key:more')],
    ['a basic pair in lower case', basic('id:key').replace('Basic', 'basic')],
    ['a TC3 signature', TC3],
  ])('answers %s with a token', async (_what, header) => {
    expect(await askForToken(emulator().url, header)).toEqual({
      status: 200,
      body: {
        token_type: 'Bearer',
        access_token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
        expires_in: 432_000,
      },
    });
  });

  it.each([
    '{"grant_type":"password"}',
    '{"grant_type":null}',
    '{}',
    '[]',
    'null',
    '{',
    '',
    'grant_type=client_credentials',
  ])('refuses the body %j', async (body) => {
    expect(await askForToken(emulator().url, basic('id:key'), body)).toEqual(
      refusal(400, 'INVALID_REQUEST', 'The body must be {"grant_type":"client_credentials"}'),
    );
  });

  it('refuses a request without Authorization', async () => {
    expect(await askForToken(emulator().url)).toEqual(
      refusal(401, 'MISSING_CREDENTIALS', 'Send Authorization: Basic base64(SecretId:SecretKey)'),
    );
  });

  it.each([
    'Bearer token',
    'Basic',
    'Basic ?',
    'Digest x',
    'TC3-HMAC-SHA256 Signature=1',
    'TC3-HMAC-SHA256 Credential=/x',
  ])('refuses Authorization %j', async (header) => {
    expect(await askForToken(emulator().url, header)).toEqual(
      refusal(401, 'INVALID_CREDENTIALS', 'The Authorization header is neither Basic nor TC3-HMAC-SHA256'),
    );
  });

  it.each(['id', ':key', 'id:', ':'])('refuses the pair %j', async (pair) => {
    expect(await askForToken(emulator().url, basic(pair))).toEqual(
      refusal(401, 'INVALID_CREDENTIALS', 'Basic credentials must be SecretId:SecretKey, both not empty'),
    );
  });
});

describe('a required key pair', () => {
  const credentials = { secretId: 'the-id', secretKey: 'the-key' };
  const emulator = useEmulator('none', { auth: 'strict', credentials });
  const wrong = refusal(
    401,
    'INVALID_CREDENTIALS',
    'This SecretId and SecretKey are not the ones that the emulator was started with',
  );

  it('gets a token that works', async () => {
    expect(await callWith(emulator().url, `Bearer ${await fetchToken(emulator().url, 'the-id:the-key')}`)).toEqual(OK);
  });

  it.each(['the-id:other', 'other:the-key', 'the-id:the-key2', 'the-id:the-ke', 'THE-ID:the-key'])(
    'is not %s',
    async (pair) => {
      expect(await askForToken(emulator().url, basic(pair))).toEqual(wrong);
    },
  );

  it('cannot be named by a TC3 signature, which is not verified', async () => {
    expect(await askForToken(emulator().url, TC3.replace('AKID', 'the-id'))).toEqual(
      refusal(
        401,
        'INVALID_CREDENTIALS',
        'The emulator does not verify TC3 signatures; where a key pair is required, send it as Basic',
      ),
    );
  });
});

describe('an emulator that others can reach', () => {
  const directory = useTempDir();

  it('is strict and asks for the pair that it made and keeps in its data directory', async () => {
    const dataDir = directory();
    const options = { host: '0.0.0.0', auth: 'lenient', ephemeral: false, dataDir } as const;
    const first = await startEmulator(options);
    const url = first.url.replace('0.0.0.0', '127.0.0.1');
    expect(await callWith(url)).toEqual(MISSING);
    expect((await askForToken(url, basic('id:key'))).status).toBe(401);
    const made = await readFile(path.join(dataDir, 'credentials.json'), 'utf8');
    const { secretId, secretKey } = JSON.parse(made);
    const token = await fetchToken(url, `${secretId}:${secretKey}`);
    expect(await callWith(url, `Bearer ${token}`)).toEqual(OK);
    await first.close();
    await startEmulator(options);
    expect(await readFile(path.join(dataDir, 'credentials.json'), 'utf8')).toBe(made);
  });
});
