import { describe, expect, it } from 'vitest';
import { randomId, useEmulator } from '../helpers/emulator.js';
import { type RawRequest, rawRequest } from '../helpers/raw-request.js';

const PAGE = 'https://page.example';
const SESSION = { 'X-Cloudbase-Session-Id': randomId('origin'), 'Content-Type': 'application/json' };
const bash = (headers: RawRequest['headers']): RawRequest => ({
  method: 'POST',
  path: '/api/tools/bash',
  headers: { ...SESSION, ...headers },
  body: '{"command":"echo hi"}',
});
const preflight = (headers: RawRequest['headers']): RawRequest => ({
  method: 'OPTIONS',
  path: '/api/tools/bash',
  headers: {
    'Access-Control-Request-Method': 'POST',
    'Access-Control-Request-Headers': 'content-type,x-cloudbase-session-id',
    ...headers,
  },
});
const ANSWERED = { status: 200, text: expect.stringContaining('"output":"hi\\n"') };
const CORS = ['access-control-allow-origin', 'access-control-allow-methods', 'access-control-allow-headers'];

describe('the Host of a request', () => {
  const emulator = useEmulator('none', { allowedHost: ['Sandbox.Internal', '192.168.1.5'] });

  it.each([
    'localhost',
    'localhost:9000',
    'LOCALHOST',
    '127.0.0.1',
    '127.0.0.1:1',
    '[::1]',
    '[::1]:9000',
    'env-1.api.tcloudbasegateway.com',
    'env-1.ap-shanghai.api.tcloudbasegateway.com',
    'env-1.api.tcloudbasegateway.com:443',
    'env-1.service.tcloudbase.com',
    'env-1.ap-shanghai.app.tcloudbase.com',
    'sandbox.internal',
    'sandbox.internal:9000',
    '192.168.1.5:9000',
  ])('may be %s', async (host) => {
    expect(await rawRequest(emulator().url, bash({ Host: host }))).toMatchObject(ANSWERED);
  });

  it.each([
    'api.tcloudbasegateway.com',
    'env-1.api.tcloudbasegateway.com.evil.example',
    'env-1.api.tcloudbasegateway.comx',
    'evil.example.env-1.api.tcloudbasegateway.com',
    'tcloudbase.com',
    'sub.sandbox.internal',
    'localhost.',
    '127.0.0.2',
    '169.254.169.254',
    'evil.example',
  ])('may not be %s, not even for the health of the gateway', async (host) => {
    const { status, text } = await rawRequest(emulator().url, { path: '/health', headers: { Host: host } });
    const message = `The Host ${JSON.stringify(host)} is not the emulator's; allow it with --allowed-host`;
    expect({ status, body: JSON.parse(text) }).toEqual({
      status: 421,
      body: { success: false, error: message, code: 'FOREIGN_HOST', message, requestId: expect.any(String) },
    });
  });
});

describe('the Origin of a request', () => {
  const emulator = useEmulator('none', { auth: 'lenient', allowedOrigin: [`${PAGE}/some/path`] });

  it('may be the own one', async () => {
    const { port, origin } = new URL(emulator().url);
    const own = await rawRequest(emulator().url, bash({ Origin: origin }));
    expect(own).toMatchObject(ANSWERED);
    for (const header of CORS) expect(own.headers).not.toHaveProperty(header);
    const named = { Origin: `http://localhost:${port}`, Host: `localhost:${port}` };
    expect(await rawRequest(emulator().url, bash(named))).toMatchObject(ANSWERED);
  });

  it('may be an allowed one, whose page can read the answer of a command', async () => {
    const answer = await rawRequest(emulator().url, bash({ Origin: PAGE }));
    expect(answer).toMatchObject(ANSWERED);
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': PAGE,
      'access-control-expose-headers': '*',
      vary: 'Origin',
    });
    expect(answer.headers).not.toHaveProperty('access-control-allow-credentials');
  });

  it('lets an allowed page read refusals too', async () => {
    const answer = await rawRequest(emulator().url, { ...bash({ Origin: PAGE }), body: '{' });
    expect(answer).toMatchObject({ status: 400, headers: { 'access-control-allow-origin': PAGE, vary: 'Origin' } });
    const own = await rawRequest(emulator().url, { path: '/_emulator/nowhere', headers: { Origin: PAGE } });
    expect(own).toMatchObject({ status: 404, headers: { 'access-control-allow-origin': PAGE } });
  });

  it('is asked for beforehand by an allowed page, which needs no session', async () => {
    const { status, text, headers } = await rawRequest(emulator().url, preflight({ Origin: PAGE }));
    expect({ status, text }).toEqual({ status: 204, text: '' });
    expect(headers).toMatchObject({
      'access-control-allow-origin': PAGE,
      'access-control-allow-methods': 'GET, POST, PUT, DELETE',
      'access-control-allow-headers': 'content-type,x-cloudbase-session-id',
    });
  });

  it.each([
    'https://evil.example',
    'http://page.example',
    'https://page.example:8443',
    'https://page.example.evil.example',
    'https://sub.page.example',
    'https://127.0.0.1',
    'http://127.0.0.1',
    'null',
  ])('may not be %s, and no page of it can read anything', async (origin) => {
    const message = `The Origin ${JSON.stringify(origin)} may not call the emulator; allow it with --allowed-origin`;
    const body = { success: false, error: message, code: 'FOREIGN_ORIGIN', message, requestId: expect.any(String) };
    for (const request of [bash({ Origin: origin }), preflight({ Origin: origin })]) {
      const answer = await rawRequest(emulator().url, request);
      expect({ status: answer.status, body: JSON.parse(answer.text) }).toEqual({ status: 400, body });
      for (const header of CORS) expect(answer.headers).not.toHaveProperty(header);
    }
  });

  it('does not help a foreign Host', async () => {
    const foreign = { Origin: 'http://evil.example', Host: 'evil.example' };
    expect(await rawRequest(emulator().url, bash(foreign))).toMatchObject({ status: 421 });
    expect(await rawRequest(emulator().url, preflight({ ...foreign, Origin: PAGE }))).toMatchObject({ status: 421 });
  });
});

describe('an allowed origin under strict auth', () => {
  const emulator = useEmulator('none', { auth: 'strict', allowedOrigin: [PAGE] });

  it('needs no token to ask beforehand, and one for the request', async () => {
    expect(await rawRequest(emulator().url, preflight({ Origin: PAGE }))).toMatchObject({ status: 204 });
    expect(await rawRequest(emulator().url, bash({ Origin: PAGE }))).toMatchObject({
      status: 401,
      headers: { 'access-control-allow-origin': PAGE },
    });
  });
});
