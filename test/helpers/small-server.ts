import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll } from 'vitest';

/** A server on a free port of loopback that answers as each test says. */
export function useSmallServer(): { url(): string; answerWith(listener: RequestListener): void } {
  let server: Server;
  let current: RequestListener | undefined;
  beforeAll(async () => {
    server = createServer((incoming, outgoing) => {
      if (current) current(incoming, outgoing);
      else outgoing.destroy();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterEach(() => {
    current = undefined;
  });
  afterAll(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    // A listening TCP server has an address with a port.
    url: () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answerWith(listener) {
      current = listener;
    },
  };
}

/** A URL on loopback where nobody listens. */
export async function closedUrl(): Promise<string> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // TCP, as above
  server.close();
  await once(server, 'close');
  return `http://127.0.0.1:${port}`;
}

/** What a promise rejects with; fails when it does not. */
export async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  const value = await promise.then(
    (resolved) => ({ resolved }),
    (reason: unknown) => ({ reason }),
  );
  if ('resolved' in value) throw new Error(`resolved with ${JSON.stringify(value.resolved)}`);
  return value.reason;
}
