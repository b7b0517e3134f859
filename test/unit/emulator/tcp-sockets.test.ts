import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createSocketTables, findListeners, socketsOf } from '../../../emulator/tcp-sockets.js';

describe.runIf(process.platform === 'linux')('the socket tables', () => {
  async function connection(host: string) {
    const server = createServer().listen(0, host);
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const accepted = once(server, 'connection');
    const client = connect(port, host);
    const [served] = (await accepted) as [Socket];
    if (client.connecting) await once(client, 'connect');
    onTestFinished(() => {
      client.destroy();
      served.destroy();
      server.close();
    });
    return { port, client, served };
  }

  const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket) =>
    [
      { address: remoteAddress ?? '', port: remotePort ?? 0 },
      { address: localAddress ?? '', port: localPort ?? 0 },
    ] as const;

  it.each(['127.0.0.1', '127.0.0.2', '::1'])('tell who has the other end of a connection over %s', async (host) => {
    const { served } = await connection(host);
    const owner = createSocketTables().findOwner(...endsOf(served));
    expect(owner).toEqual({ uid: process.getuid?.(), inode: expect.stringMatching(/^[1-9]\d*$/) });
    const inode = owner?.inode ?? '';
    expect(socketsOf(process.pid, new Set([inode]))).toEqual([inode]);
    expect(socketsOf(process.ppid, new Set([inode]))).toEqual([]);
  });

  it('do not take another address with the same ports for it', async () => {
    const { served } = await connection('127.0.0.1');
    const [remote, local] = endsOf(served);
    expect(createSocketTables().findOwner({ ...remote, address: '127.0.0.9' }, local)).toBeUndefined();
    expect(createSocketTables().findOwner(remote, { ...local, address: '127.0.0.9' })).toBeUndefined();
    expect(createSocketTables().findOwner({ address: 'nonsense', port: 1 }, local)).toBeUndefined();
  });

  it('tell who listens on a port', async () => {
    const { port } = await connection('127.0.0.1');
    const listeners = findListeners(port);
    expect(listeners.size).toBe(1);
    expect(socketsOf(process.pid, listeners)).toEqual([...listeners]);
    expect(findListeners(1)).toEqual(new Set());
  });
});
