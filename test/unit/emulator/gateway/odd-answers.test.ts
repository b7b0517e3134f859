import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { SandboxError } from '../../../../emulator/errors.js';
import type { RequestRecord } from '../../../../emulator/events.js';
import { forward } from '../../../../emulator/gateway/container-proxy.js';
import { fakeInstance } from '../../../helpers/fake-instance.js';
import { rawRequest } from '../../../helpers/raw-request.js';
import { useSmallServer } from '../../../helpers/small-server.js';

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

/** An instance is as untrusted as the commands in it; whatever it answers, the gateway goes on. */
describe('an answer that no instance gives', () => {
  const gateway = useSmallServer();
  const agent = new Agent({ keepAlive: true });
  const uncaught: unknown[] = [];
  const keep = (error: unknown) => uncaught.push(error);
  let directory: string;
  let instance: Server;
  const sockets: Socket[] = [];
  let behave: (socket: Socket) => void;

  beforeAll(async () => {
    process.on('uncaughtException', keep);
    directory = await mkdtemp(path.join(tmpdir(), 'scf-test-'));
    instance = createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => {});
      socket.once('data', () => behave(socket));
    });
    instance.listen(path.join(directory, 'http.sock'));
    await once(instance, 'listening');
  });
  afterEach(() => {
    expect(uncaught).toEqual([]);
  });
  afterAll(async () => {
    process.off('uncaughtException', keep);
    agent.destroy();
    instance.close();
    await rm(directory, { recursive: true });
  });

  /** What the gateway makes of one request; `false` stands for «may be sent to another instance». */
  async function pass(init: Parameters<typeof rawRequest>[1] = { method: 'POST', body: '{}' }) {
    const record: RequestRecord = { requestId: 'r', method: '', path: '', status: 0, durationMs: 0 };
    const target = fakeInstance(directory, agent);
    gateway.answerWith((incoming, outgoing) => {
      forward({ incoming, outgoing, path: '/', sessionId: 'env', record }, target).then(
        (sent) => sent || outgoing.writeHead(500).end('false'),
        (error: unknown) => outgoing.writeHead(500).end(error instanceof SandboxError ? error.code : String(error)),
      );
    });
    const answer = await rawRequest(gateway.url(), init);
    // What would be uncaught comes with the end of the connection.
    await Promise.all(sockets.splice(0).map((socket) => socket.destroyed || once(socket.destroy(), 'close')));
    await new Promise(setImmediate);
    return answer;
  }

  it.each([
    ['garbage', 'garbage\r\n\r\n', 'false'],
    ['a change of protocol', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n', 'false'],
    ['a change of protocol without its name', 'HTTP/1.1 101 Switching Protocols\r\n\r\n', 'false'],
    ['status 000', 'HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n', 'false'],
    ['status 999', 'HTTP/1.1 999 Nothing\r\nContent-Length: 0\r\n\r\n', 'false'],
    ['headers without end', `HTTP/1.1 200 OK\r\n${'X-Long: x\r\n'.repeat(5_000)}`, 'false'],
    ['nothing', '', 'false'],
  ])('is refused when it is %s', async (_what, bytes, text) => {
    behave = (socket) => socket.end(bytes);
    expect(await pass()).toMatchObject({ status: 500, text });
  });

  it('is a lost request when it comes after the body was taken', async () => {
    behave = (socket) => {
      socket.write('HTTP/1.1 100 Continue\r\n\r\n');
      socket.once('data', () =>
        socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'),
      );
    };
    expect(await pass()).toMatchObject({ status: 500, text: 'INSTANCE_CRASHED' });
  });

  it('is cut off where it ends, with what follows thrown away', async () => {
    behave = (socket) => socket.write(`${OK}HTTP/1.1 200 OK\r\n\r\nmore garbage`);
    expect(await pass()).toMatchObject({ status: 200, text: 'ok' });
  });

  it('may come before the body is through, and the instance may then go away', async () => {
    behave = (socket) => {
      socket.write('HTTP/1.1 100 Continue\r\n\r\n');
      socket.once('data', () => socket.end(OK));
    };
    expect(await pass({ method: 'POST', body: 'x'.repeat(4_000_000) })).toMatchObject({ status: 200, text: 'ok' });
  });
});
