import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Config } from '../config.js';
import { systemErrorCode } from '../errors.js';
import { findPortHolder } from './port-holder.js';

/**
 * Listens on the configured address.
 *
 * @returns Base URL, without a slash at the end.
 * @throws Error that says why that is not possible and what to do about it.
 */
export async function listen(server: Server, config: Config): Promise<string> {
  server.listen(config.port, config.host);
  try {
    await once(server, 'listening');
  } catch (error) {
    throw await explain(error, config);
  }
  const { port } = server.address() as AddressInfo; // a listening TCP server has an address with a port
  return `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`;
}

async function explain(error: unknown, { host, port }: Config): Promise<Error> {
  switch (systemErrorCode(error)) {
    case 'EADDRINUSE': {
      const holder = (await findPortHolder(port)) ?? 'another program';
      return new Error(
        `Port ${port} is taken by ${holder}. Stop it, or choose another port with --port (0 takes a free one).`,
      );
    }
    case 'EACCES':
      return new Error(`Port ${port} needs more rights than this user has. Choose one above 1023 with --port.`);
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new Error(`This machine has no address ${host}. Choose another with --host.`);
    default:
      return error instanceof Error ? error : new Error(String(error));
  }
}
