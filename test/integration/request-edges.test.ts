import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { callerFor, describeModes, eventually, namespacesHold, randomId, useEmulator } from '../helpers/emulator.js';
import { followRequests, type LiveRequest } from '../helpers/live-events.js';
import { rawRequest } from '../helpers/raw-request.js';

const MODE = namespacesHold ? 'namespace' : 'none';

// The emulators run in this process; what the server library cannot handle, it writes there.
beforeEach(() => void vi.spyOn(console, 'error'));
afterEach(() => {
  const written = [...vi.mocked(console.error).mock.calls];
  vi.restoreAllMocks();
  expect(written).toEqual([]);
});

async function follow(emulator: Parameters<typeof followRequests>[0]) {
  const events = await followRequests(emulator);
  onTestFinished(() => events.stop());
  return events;
}

describe('a request that is unusual but right', () => {
  const emulator = useEmulator(MODE);
  const SESSION = { 'X-Cloudbase-Session-Id': randomId() };
  const bash = (headers: Record<string, string>, path = '/api/tools/bash') =>
    rawRequest(emulator().url, {
      method: 'POST',
      path,
      headers: { ...SESSION, ...headers },
      body: '{"command":"echo hi","file_path":"x","-n":1,"timeout":5000}',
    });

  it('may have body fields that nobody knows', async () => {
    const { status, text } = await bash({ 'Content-Type': 'application/json' });
    expect(status).toBe(200);
    expect(JSON.parse(text)).toMatchObject({ success: true, result: { exitCode: 0, output: 'hi\n' } });
  });

  it.each([
    'application/json; charset=utf-8',
    'application/json;charset=UTF-8',
    'APPLICATION/JSON',
    'application/ld+json',
  ])('may call its body %s', async (type) => {
    const { status, text } = await bash({ 'Content-Type': type });
    expect({ status, body: JSON.parse(text) }).toMatchObject({ status: 200, body: { success: true } });
  });

  it('may leave out the content type', async () => {
    expect(await bash({})).toMatchObject({ status: 200, text: expect.stringContaining('"output":"hi\\n"') });
  });

  it('may begin its body with a byte order mark', async () => {
    const body = '\ufeff{"command":"echo hi"}';
    const answer = await rawRequest(emulator().url, {
      method: 'POST',
      path: '/api/tools/bash',
      headers: SESSION,
      body,
    });
    expect(answer).toMatchObject({ status: 200, text: expect.stringContaining('"output":"hi\\n"') });
  });

  it('may send a JSON content type with a GET', async () => {
    const headers = { ...SESSION, 'Content-Type': 'application/json' };
    const { status, text } = await rawRequest(emulator().url, { path: '/health', headers });
    expect({ status, body: JSON.parse(text) }).toMatchObject({ status: 200, body: { ok: true, status: 'ready' } });
  });

  it('may be a HEAD, which has no body', async () => {
    const { status, text } = await rawRequest(emulator().url, { method: 'HEAD', path: '/health', headers: SESSION });
    expect({ status, text }).toEqual({ status: 200, text: '' });
  });

  it('may leave out the body of session/init', async () => {
    const path = '/api/session/init';
    const { status, text } = await rawRequest(emulator().url, { method: 'POST', path, headers: SESSION });
    expect({ status, body: JSON.parse(text) }).toMatchObject({ status: 200, body: { success: true } });
  });

  it.each([
    '/v1/functions/sandbox%2Dshared/api/tools/bash',
    '/v1/functions/other/../sandbox-shared/api/tools/bash',
    '/v1/functions/sandbox-shared/api/tools/bash?from=skill',
    'http://127.0.0.1/v1/functions/sandbox-shared/api/tools/bash',
    'http://127.0.0.1/api/tools/bash',
  ])('may spell its path as %s', async (path) => {
    expect(await bash({}, path)).toMatchObject({ status: 200, text: expect.stringContaining('"output":"hi\\n"') });
  });

  it('may have long, many and repeated headers', async () => {
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`X-Many-${n}`, 'v']));
    const headers = { ...SESSION, ...many, 'X-Long': 'v'.repeat(8_000), 'X-Twice': ['a', 'b'] };
    expect(await rawRequest(emulator().url, { path: '/health', headers })).toMatchObject({ status: 200 });
  });
});

describe('answers of the emulator', () => {
  const emulator = useEmulator(MODE);
  const HTML = randomId('html');

  it.each([
    '/',
    '/health',
    '/api/tools/bash',
    '/nowhere',
    '/v1/functions/x',
    '/_emulator',
    '/_emulator/x',
    '/mcp',
    '/%zz',
  ])('to %s are never HTML', async (path) => {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const headers = { 'X-Cloudbase-Session-Id': HTML, Accept: 'text/html' };
      const { text, ...answer } = await rawRequest(emulator().url, { method, path, headers });
      expect(answer.headers['content-type']).toBe('application/json');
      expect(() => JSON.parse(text)).not.toThrow();
    }
  });

  it.each([
    ['headers of 20 KB', { path: '/health', headers: { 'X-Long': 'v'.repeat(20_000) } }, 431],
    ['an expectation that nobody knows', { path: '/health', headers: { Expect: 'the-unexpected' } }, 417],
    ['a Host that is no host', { path: '/health', headers: { Host: 'not a host' } }, 400],
  ])('to %s have no body, and the emulator goes on', async (_what, input, status) => {
    expect(await rawRequest(emulator().url, input)).toMatchObject({ status, text: '' });
    expect((await fetch(`${emulator().url}/health`)).status).toBe(200);
  });

  it('to what is not HTTP end the connection alone', async () => {
    const socket = connect(Number(new URL(emulator().url).port), '127.0.0.1');
    socket.write('\x16\x03\x01 this is not HTTP\r\n\r\n');
    await once(socket.resume(), 'close');
    expect((await fetch(`${emulator().url}/health`)).status).toBe(200);
  });

  it('carry no internal header, and what they tell about a request has no token', async () => {
    const events = await follow(emulator());
    const caller = callerFor(emulator(), randomId(), 'A');
    const headers = { Authorization: 'Bearer t0ken-value', 'X-Cloudbase-Authorization': 't0ken-value' };
    const { status, headers: answered } = await caller.json('POST', '/api/tools/bash', { command: 'env' }, headers);
    expect(status).toBe(200);
    expect(answered.has('x-instance-trace')).toBe(false);
    await events.until('the request is reported', ({ path }) => path === '/api/tools/bash');
    expect(events.text()).not.toContain('t0ken-value');
    expect((await caller.bash('env')).output).not.toContain('t0ken-value');
  });
});

describe('with --strict-fields', () => {
  const emulator = useEmulator(MODE, { strictFields: true });
  const STRICT = randomId('strict');

  it.each([
    ['/api/tools/bash', { command: 'true', file_path: 'x', other: 1 }, 'Unrecognized keys: "file_path", "other"'],
    ['/api/session/init', { env: {}, surprise: 1 }, 'Unrecognized key: "surprise"'],
  ])('%s refuses body fields that it does not know', async (path, body, text) => {
    const answer = await callerFor(emulator(), STRICT).json('POST', path, body);
    const message = `Invalid request: ${text}`;
    expect({ status: answer.status, body: answer.body }).toEqual({
      status: 400,
      body: { success: false, error: message, code: 'INVALID_REQUEST', message, requestId: expect.any(String) },
    });
  });

  it('the fields that a route knows are taken', async () => {
    expect((await callerFor(emulator(), STRICT).bash('echo hi', 5_000)).output).toBe('hi\n');
  });
});

/** Starts a command that goes on until it is told to end, and leaves once it runs. */
async function leaveCommand(caller: ReturnType<typeof callerFor>, url: string, command: string): Promise<void> {
  const outgoing = request(`${url}/api/tools/bash`, {
    method: 'POST',
    headers: { 'X-Cloudbase-Session-Id': caller.sessionId, 'Content-Type': 'application/json' },
  });
  outgoing.on('error', () => {}); // it is cut on purpose
  outgoing.end(JSON.stringify({ command: `echo $$ > pid.tmp; mv pid.tmp pid; ${command}` }));
  await eventually('the command runs', async () => (await caller.bash('cat pid')).exitCode === 0);
  outgoing.destroy();
}

describeModes('a client that leaves', (emulator) => {
  it('in the middle of a body leaves an emulator that works', async () => {
    const events = await follow(emulator());
    const caller = callerFor(emulator(), randomId());
    await caller.init();
    for (const framing of ['Content-Length: 1000', 'Transfer-Encoding: chunked']) {
      const socket = connect(Number(new URL(emulator().url).port), '127.0.0.1');
      const head = `POST /api/tools/bash HTTP/1.1\r\nHost: localhost\r\nX-Cloudbase-Session-Id: ${caller.sessionId}`;
      await new Promise<void>((resolve) => socket.write(`${head}\r\n${framing}\r\n\r\n4\r\n{"co`, () => resolve()));
      socket.destroy();
    }
    // One that is gone before it could be recognised as a caller from outside is refused.
    const isCut = (request: LiveRequest) =>
      request.path === '/api/tools/bash' && (request.aborted || request.status === 403);
    await eventually('both are reported', () => events.requests().filter(isCut).length === 2);
    expect((await caller.bash('echo fine')).output).toBe('fine\n');
  });

  it('does not end its command', async () => {
    const events = await follow(emulator());
    const caller = callerFor(emulator(), randomId());
    await leaveCommand(caller, emulator().url, 'until [ -e go ]; do sleep 0.02; done; echo done > result');
    await events.until('the client is gone', ({ aborted }) => aborted === true);
    await caller.bash('touch go');
    await eventually('the command went on', async () => (await caller.bash('cat result')).output === 'done\n');
  });
});

describeModes(
  'with --cancel-on-disconnect, a client that leaves',
  (emulator) => {
    it('ends its command', async () => {
      const caller = callerFor(emulator(), randomId());
      await leaveCommand(caller, emulator().url, 'sleep 600; echo done > result');
      const ended = async () => (await caller.bash('kill -0 "$(cat pid)"')).exitCode !== 0;
      await eventually('the command is ended', ended);
      expect((await caller.bash('cat result')).exitCode).toBe(1);
    });
  },
  { cancelOnDisconnect: true },
);
