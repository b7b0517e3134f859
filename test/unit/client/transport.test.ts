import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SandboxConnectionError } from '../../../client/errors.js';
import { readJson, send } from '../../../client/transport.js';
import { closedUrl, rejectionOf, useSmallServer } from '../../helpers/small-server.js';

const unhandled: unknown[] = [];
const note = (reason: unknown) => unhandled.push(reason);
beforeAll(() => void process.on('unhandledRejection', note).on('uncaughtException', note));
afterAll(() => {
  process.off('unhandledRejection', note).off('uncaughtException', note);
  expect(unhandled).toEqual([]);
});

async function connectionErrorOf(promise: Promise<unknown>): Promise<SandboxConnectionError> {
  const reason = await rejectionOf(promise);
  expect(reason).toBeInstanceOf(SandboxConnectionError);
  return reason as SandboxConnectionError; // checked above
}

describe('a request', () => {
  const server = useSmallServer();

  it('arrives as it was given', async () => {
    server.answerWith(async (incoming, outgoing) => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk);
      const { method, url, headers } = incoming;
      outgoing.end(JSON.stringify({ method, url, mark: headers['x-mark'], body: Buffer.concat(chunks).toString() }));
    });
    const input = { method: 'PUT', headers: { 'X-Mark': 'one' }, body: '{"a":"é"}' };
    const response = await send(`${server.url()}/path?query=1`, input);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ method: 'PUT', url: '/path?query=1', mark: 'one', body: '{"a":"é"}' });
  });

  it.each([200, 201, 302, 400, 401, 404, 421, 429, 430, 443, 446, 500, 503, 599])(
    'resolves with the answer of status %i',
    async (status) => {
      server.answerWith((_, outgoing) => outgoing.writeHead(status, { 'X-Request-Id': 'request-1' }).end('text'));
      const response = await send(server.url());
      expect({
        status: response.status,
        id: response.headers.get('x-request-id'),
        text: await response.text(),
      }).toEqual({ status, id: 'request-1', text: 'text' });
    },
  );

  it.each([204, 205, 304])('resolves with an answer of status %i that has no body', async (status) => {
    server.answerWith((_, outgoing) => outgoing.writeHead(status).end());
    const response = await send(server.url());
    expect({ status: response.status, body: response.body }).toEqual({ status, body: null });
  });

  it('keeps each of several headers of one name', async () => {
    server.answerWith((_, outgoing) => outgoing.setHeader('Set-Cookie', ['a=1', 'b=2']).end());
    expect((await send(server.url())).headers.getSetCookie()).toEqual(['a=1', 'b=2']);
  });

  it('reads a long body whole', async () => {
    const text = 'é'.repeat(1_000_000);
    server.answerWith((_, outgoing) => outgoing.end(text));
    expect(await (await send(server.url())).text()).toBe(text);
  });
});

describe('a request without an answer', () => {
  const server = useSmallServer();

  it('names a refused connection', async () => {
    const url = await closedUrl();
    const error = await connectionErrorOf(send(`${url}/path`));
    expect(error).toMatchObject({ name: 'SandboxConnectionError', code: 'ECONNREFUSED' });
    expect(error.message).toMatch(new RegExp(`^No answer from ${url}: `));
  });

  it('names a connection that was cut before the answer', async () => {
    server.answerWith((incoming) => incoming.socket.destroy());
    expect((await connectionErrorOf(send(server.url()))).code).toBe('ECONNRESET');
  });

  it('says that the time was up', async () => {
    server.answerWith(() => {});
    const error = await connectionErrorOf(send(server.url(), { signal: AbortSignal.timeout(50) }));
    expect(error).toMatchObject({ code: 'TIMEOUT', message: `No answer from ${server.url()} in time` });
  });

  it('says that it was aborted', async () => {
    const abort = new AbortController();
    server.answerWith(() => abort.abort());
    const error = await connectionErrorOf(send(server.url(), { signal: abort.signal }));
    expect(error).toMatchObject({ code: 'ABORTED', message: `The request to ${server.url()} was aborted` });
  });

  it('is not even sent when it was aborted before', async () => {
    const error = await connectionErrorOf(send(server.url(), { signal: AbortSignal.abort() }));
    expect(error.code).toBe('ABORTED');
  });
});

describe('an answer that breaks off', () => {
  const server = useSmallServer();

  it.each([{ 'Content-Length': '100' }, { 'Transfer-Encoding': 'chunked' }])(
    'is no answer, with %j',
    async (headers) => {
      server.answerWith((incoming, outgoing) => {
        outgoing.writeHead(200, headers).write('{"success":', () => incoming.socket.destroy());
      });
      const error = await connectionErrorOf(send(server.url()).then((response) => response.text()));
      expect(error.code).toBe('ECONNRESET');
    },
  );

  it('is no answer when the time is up in the middle', async () => {
    server.answerWith((_, outgoing) => outgoing.writeHead(200).write('{"success":'));
    const signal = AbortSignal.timeout(200);
    const error = await connectionErrorOf(send(server.url(), { signal }).then((response) => response.text()));
    expect(error.code).toBe('TIMEOUT');
  });

  it('harms nobody when the body is not read', async () => {
    const left = new Promise((resolve) => {
      server.answerWith((incoming, outgoing) => {
        outgoing
          .on('close', resolve)
          .writeHead(200)
          .write('{"success":', () => incoming.socket.destroy());
      });
    });
    expect((await send(server.url())).status).toBe(200);
    await left;
    await new Promise((resolve) => setImmediate(resolve));
  });
});

describe('a body read as JSON', () => {
  it.each([
    ['{"a":1}', { a: 1 }],
    ['null', null],
    ['', undefined],
    ['<html></html>', undefined],
    ['{"a":', undefined],
  ])('%j is %j', async (text, value) => {
    expect(await readJson(new Response(text))).toEqual(value);
  });
});
