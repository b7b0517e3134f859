import type { RequestListener } from 'node:http';
import { describe, expect, it } from 'vitest';
import { SandboxAnswerError, SandboxConnectionError, SandboxInstance } from '../../../client/index.js';
import { closedUrl, rejectionOf, useSmallServer } from '../../helpers/small-server.js';

const RESULT = { mode: 'real', exitCode: 0, output: 'hi\n', truncated: false, timedOut: false, simulated: false };
const FULL_RESULT = { ...RESULT, background: false, omittedBytes: 0 };
const HTML = '<html><body>Bad Gateway</body></html>';

function sandboxAt(url: string, secrets: { secretId?: string; secretKey?: string } = {}): SandboxInstance {
  return new SandboxInstance({ target: { kind: 'emulator', url, ...secrets }, envId: 'env-1', conversationId: 'A' });
}

const answer = (status: number, body: string, type = 'application/json'): RequestListener => {
  return (_, outgoing) => {
    const headers = { 'Content-Type': type, 'X-Request-Id': 'request-1' };
    outgoing.writeHead(status, body === '' ? { 'X-Request-Id': 'request-1' } : headers).end(body);
  };
};
const envelope = (code: string, message: string) =>
  JSON.stringify({ success: false, error: message, code, message, requestId: 'request-1' });
const withoutReason = (status: number) => `The sandbox answered ${status} without saying why`;

/** status, body, code, message, retryable */
const REFUSALS: Array<[number, string, string | undefined, string, boolean]> = [
  [302, '', undefined, withoutReason(302), false],
  [400, envelope('INVALID_REQUEST', 'bad'), 'INVALID_REQUEST', 'bad', false],
  [401, envelope('ACCESS_TOKEN_EXPIRED', 'expired'), 'ACCESS_TOKEN_EXPIRED', 'expired', false],
  [403, '{"code":"ACCESS_DENIED","message":"no","requestId":"x"}', 'ACCESS_DENIED', 'no', false],
  [404, '{"success":false,"error":"nothing there"}', undefined, 'nothing there', false],
  [413, envelope('REQUEST_TOO_LARGE', 'large'), 'REQUEST_TOO_LARGE', 'large', false],
  [421, envelope('FOREIGN_HOST', 'foreign'), 'FOREIGN_HOST', 'foreign', false],
  [429, '{"code":"TOO_MANY","message":"later"}', 'TOO_MANY', 'later', true],
  [430, '', undefined, withoutReason(430), true],
  [432, '', undefined, withoutReason(432), true],
  [433, '', undefined, withoutReason(433), false],
  [443, '', undefined, withoutReason(443), true],
  [443, envelope('INSTANCE_CRASHED', 'crashed'), 'INSTANCE_CRASHED', 'crashed', true],
  [500, envelope('INTERNAL', 'failed'), 'INTERNAL', 'failed', false],
  [500, '[]', undefined, withoutReason(500), false],
  [500, '{"message":5,"error":""}', undefined, withoutReason(500), false],
  [502, HTML, undefined, withoutReason(502), true],
  [503, envelope('SHUTTING_DOWN', 'stopping'), 'SHUTTING_DOWN', 'stopping', true],
  [504, HTML, undefined, withoutReason(504), true],
];

describe('a command through the client', () => {
  const server = useSmallServer();

  it('carries the headers of its conversation and resolves with the result', async () => {
    let seen: unknown;
    server.answerWith(async (incoming, outgoing) => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk);
      const { 'x-cloudbase-session-id': session, 'x-conversation-id': conversation, authorization } = incoming.headers;
      const body = JSON.parse(Buffer.concat(chunks).toString());
      seen = { url: incoming.url, session, conversation, authorization, webfn: incoming.headers['x-tcb-webfn'], body };
      outgoing.end(JSON.stringify({ success: true, result: FULL_RESULT }));
    });
    expect(await sandboxAt(server.url()).bash('echo hi', { timeoutMs: 5_000 })).toEqual(FULL_RESULT);
    expect(seen).toEqual({
      url: '/v1/functions/sandbox-shared/api/tools/bash',
      session: 'env-1',
      conversation: 'A',
      authorization: undefined,
      webfn: 'true',
      body: { command: 'echo hi', timeout: 5_000 },
    });
  });

  it.each(REFUSALS)('rejects with the answer of status %i: %j', async (status, body, code, message, retryable) => {
    server.answerWith(answer(status, body, body.startsWith('<') ? 'text/html' : undefined));
    const error = await rejectionOf(sandboxAt(server.url()).bash('true'));
    expect(error).toBeInstanceOf(SandboxAnswerError);
    expect(error).toMatchObject({ name: 'SandboxAnswerError', status, message, requestId: 'request-1', retryable });
    expect(error).toHaveProperty('code', code);
  });

  it('rejects with what the tool said when it could not do its work', async () => {
    server.answerWith(answer(200, '{"success":false,"error":"no bash"}'));
    const error = await rejectionOf(sandboxAt(server.url()).bash('true'));
    expect(error).toBeInstanceOf(SandboxAnswerError);
    expect(error).toMatchObject({ status: 200, message: 'no bash', requestId: 'request-1', retryable: false });
  });

  it.each([
    ['', 200, 'the body'],
    ['', 204, 'the body'],
    [HTML, 200, 'the body'],
    ['null', 200, 'the body'],
    ['{}', 200, 'success'],
    ['{"success":false}', 200, 'error'],
    ['{"success":true,"result":{}}', 200, 'mode'],
    [JSON.stringify({ success: true, result: { ...FULL_RESULT, exitCode: '0' } }), 200, 'exitCode'],
  ])('rejects an answer in an unknown form: %j with status %i', async (body, status, where) => {
    server.answerWith(answer(status, body));
    const error = await rejectionOf(sandboxAt(server.url()).bash('true'));
    expect(error).toBeInstanceOf(SandboxAnswerError);
    expect(error).toMatchObject({
      status,
      message: expect.stringMatching(`^The sandbox answered in an unknown form: ${where}: `),
      requestId: 'request-1',
      retryable: false,
    });
  });

  it.each(['200', '500'])('rejects an answer of status %s that breaks off as no answer', async (status) => {
    server.answerWith((incoming, outgoing) => {
      outgoing.writeHead(Number(status), { 'Content-Length': '100' });
      outgoing.write('{"success":', () => incoming.socket.destroy());
    });
    const error = await rejectionOf(sandboxAt(server.url()).bash('true'));
    expect(error).toBeInstanceOf(SandboxConnectionError);
    expect(error).toMatchObject({ code: 'ECONNRESET' });
  });

  it('rejects without an answer: refused, cut, late, aborted', async () => {
    const codeOf = async (promise: Promise<unknown>) => {
      const error = await rejectionOf(promise);
      expect(error).toBeInstanceOf(SandboxConnectionError);
      return (error as SandboxConnectionError).code; // checked above
    };
    expect(await codeOf(sandboxAt(await closedUrl()).bash('true'))).toBe('ECONNREFUSED');
    server.answerWith((incoming) => incoming.socket.destroy());
    expect(await codeOf(sandboxAt(server.url()).bash('true'))).toBe('ECONNRESET');
    server.answerWith(() => {});
    const late = { signal: AbortSignal.timeout(50) };
    expect(await codeOf(sandboxAt(server.url()).bash('true', late))).toBe('TIMEOUT');
    const abort = new AbortController();
    server.answerWith(() => abort.abort());
    expect(await codeOf(sandboxAt(server.url()).bash('true', { signal: abort.signal }))).toBe('ABORTED');
  });
});

describe('the access token of the client', () => {
  const server = useSmallServer();
  const PAIR = { secretId: 'id', secretKey: 'key' };

  it('is fetched once for the pair and sent with every call', async () => {
    const asked: string[] = [];
    const sent: unknown[] = [];
    server.answerWith((incoming, outgoing) => {
      incoming.resume();
      if (!incoming.url?.startsWith('/auth/')) {
        sent.push(incoming.headers.authorization);
        return outgoing.end(JSON.stringify({ success: true, result: FULL_RESULT }));
      }
      asked.push(`${incoming.method} ${incoming.url} ${incoming.headers.authorization}`);
      return outgoing.end('{"token_type":"Bearer","access_token":"token-1","expires_in":432000}');
    });
    const sandbox = sandboxAt(server.url(), PAIR);
    await Promise.all([sandbox.bash('true'), sandbox.bash('true')]);
    await sandbox.bash('true');
    expect(asked).toEqual(['POST /auth/v1/token/clientCredential Basic aWQ6a2V5']);
    expect(sent).toEqual(['Bearer token-1', 'Bearer token-1', 'Bearer token-1']);
  });

  it.each([
    [401, envelope('INVALID_CREDENTIALS', 'no'), 'INVALID_CREDENTIALS'],
    [200, '{}', undefined],
    [200, HTML, undefined],
  ])('is missing from the answer %i %j, which is reported', async (status, body, code) => {
    server.answerWith(answer(status, body));
    const error = await rejectionOf(sandboxAt(server.url(), PAIR).bash('true'));
    expect(error).toBeInstanceOf(SandboxAnswerError);
    expect(error).toMatchObject({
      status,
      requestId: 'request-1',
      message: 'The token endpoint answered without an access token; check SecretId and SecretKey',
    });
    expect(error).toHaveProperty('code', code);
  });

  it('is asked for again after a failure', async () => {
    const sandbox = sandboxAt(server.url(), PAIR);
    server.answerWith((incoming) => incoming.socket.destroy());
    expect(await rejectionOf(sandbox.getAuthHeaders())).toBeInstanceOf(SandboxConnectionError);
    server.answerWith(answer(200, '{"access_token":"token-2"}'));
    expect(await sandbox.getAuthHeaders()).toMatchObject({ Authorization: 'Bearer token-2' });
  });
});
