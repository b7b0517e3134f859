import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { SandboxError } from '../../../../emulator/errors.js';
import type { RequestRecord } from '../../../../emulator/events.js';
import { forward } from '../../../../emulator/gateway/container-proxy.js';
import { encodeTrace } from '../../../../emulator/instance-protocol.js';
import { fakeInstance } from '../../../helpers/fake-instance.js';
import { rawRequest } from '../../../helpers/raw-request.js';
import { useSmallServer } from '../../../helpers/small-server.js';

type Seen = { method: string | undefined; url: string | undefined; headers: IncomingMessage['headers']; body: string };

describe('a request on its way to an instance', () => {
  const gateway = useSmallServer();
  const agent = new Agent({ keepAlive: true });
  let directory: string;
  let instanceServer: Server;
  let answer: RequestListener = (_, outgoing) => outgoing.end('{"ok":true}');
  const seen: Seen[] = [];
  const record: RequestRecord = { requestId: 'request-1', method: '', path: '', status: 0, durationMs: 0 };

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'scf-test-'));
    instanceServer = createServer(async (incoming, outgoing) => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk);
      const { method, url, headers } = incoming;
      seen.push({ method, url, headers, body: Buffer.concat(chunks).toString() });
      answer(incoming, outgoing);
    });
    instanceServer.listen(path.join(directory, 'http.sock'));
    await once(instanceServer, 'listening');
  });
  afterEach(() => {
    seen.length = 0;
    answer = (_, outgoing) => outgoing.end('{"ok":true}');
  });
  afterAll(async () => {
    agent.destroy();
    instanceServer.close();
    await rm(directory, { recursive: true });
  });

  const pass: RequestListener = (incoming, outgoing) => {
    const request = { incoming, outgoing, path: '/inside?a=1', sessionId: 'env-1', record };
    forward(request, fakeInstance(directory, agent)).catch((error: unknown) => {
      const code = error instanceof SandboxError ? error.code : String(error);
      if (!outgoing.headersSent) outgoing.writeHead(500).end(code);
    });
  };

  it('loses the token, the trace header and what belongs to one connection', async () => {
    gateway.answerWith(pass);
    await rawRequest(gateway.url(), {
      method: 'POST',
      headers: {
        Authorization: 'Bearer secret',
        'X-Cloudbase-Authorization': 'secret',
        'X-Instance-Trace': 'forged',
        'Proxy-Authorization': 'Basic secret',
        'Proxy-Connection': 'keep-alive',
        'Keep-Alive': 'timeout=5',
        TE: 'trailers',
        Connection: 'keep-alive, X-Mine',
        'X-Mine': '1',
        'X-Other': '2',
        'Content-Type': 'application/json',
        'X-Request-Id': 'forged',
      },
      body: '{}',
    });
    const [{ headers, ...request } = { headers: {} }] = seen;
    expect(request).toEqual({ method: 'POST', url: '/inside?a=1', body: '{}' });
    const { host: _host, connection: _connection, ...kept } = headers;
    expect(kept).toEqual({
      'content-length': '2',
      'content-type': 'application/json',
      expect: '100-continue',
      'x-cloudbase-session-id': 'env-1',
      'x-request-id': 'request-1',
      'x-other': '2',
    });
  });

  it('keeps its body in one piece when a header asks to drop the length', async () => {
    gateway.answerWith(pass);
    const inner = 'POST /api/tools/bash HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}';
    const socket = connect(Number(new URL(gateway.url()).port), '127.0.0.1');
    const head = `GET / HTTP/1.1\r\nHost: x\r\nConnection: content-length\r\nContent-Length: ${inner.length}\r\n\r\n`;
    socket.write(head + inner);
    await once(socket, 'data');
    socket.destroy();
    expect(seen.map(({ method, url, body }) => ({ method, url, body }))).toEqual([
      { method: 'GET', url: '/inside?a=1', body: inner },
    ]);
  });

  it('brings an answer without the trace and without what belongs to one connection', async () => {
    gateway.answerWith(pass);
    const trace = encodeTrace({ tool: 'bash', exitCode: 3 });
    answer = (_, outgoing) => {
      const own = { 'X-Instance-Trace': trace, Connection: 'keep-alive, X-Mine', 'X-Mine': '1', 'Keep-Alive': 'x=9' };
      outgoing.writeHead(201, { ...own, 'Proxy-Authenticate': 'Basic', 'X-Other': '2' }).end('text');
    };
    const { status, text, headers } = await rawRequest(gateway.url(), {});
    expect({ status, text }).toEqual({ status: 201, text: 'text' });
    expect(headers).not.toHaveProperty('x-instance-trace');
    expect(headers).not.toHaveProperty('x-mine');
    expect(headers).not.toHaveProperty('proxy-authenticate');
    expect(headers['keep-alive']).not.toBe('x=9');
    expect(headers).toMatchObject({
      'x-other': '2',
      'x-request-id': 'request-1',
      'x-cloudbase-session-id': 'env-1',
      'x-cloudbase-upstream-status-code': '201',
      'x-emulator-instance': 'i1',
    });
    expect(record).toMatchObject({ tool: 'bash', exitCode: 3, instance: 'i1' });
  });

  it.each(['%', 'x', ...['[]', '{"tool":5}', '{"requestId":"forged"}'].map((text) => btoa(text))])(
    'arrives whatever the trace header of the answer holds: %j',
    async (trace) => {
      gateway.answerWith(pass);
      answer = (_, outgoing) => outgoing.writeHead(200, { 'X-Instance-Trace': trace }).end('text');
      expect(await rawRequest(gateway.url(), {})).toMatchObject({ status: 200, text: 'text' });
      expect(record.requestId).toBe('request-1');
    },
  );

  it('is reported as lost when the instance cuts the connection after it took the body', async () => {
    gateway.answerWith(pass);
    answer = (incoming) => incoming.socket.destroy();
    const lost = await rawRequest(gateway.url(), { method: 'POST', body: '{}' });
    expect(lost).toMatchObject({ status: 500, text: 'INSTANCE_CRASHED' });
  });

  it('may be sent to the next instance when this one is not there', async () => {
    const result = new Promise((resolve) => {
      gateway.answerWith((incoming, outgoing) => {
        const request = { incoming, outgoing, path: '/', sessionId: 'env-1', record };
        resolve(forward(request, fakeInstance(directory, agent, 'gone.sock')).finally(() => outgoing.end()));
      });
    });
    await rawRequest(gateway.url(), { method: 'POST', body: '{}' });
    expect(await result).toBe(false);
    expect(seen).toEqual([]);
  });
});
