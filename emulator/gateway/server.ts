import type { Server } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Hono } from 'hono';
import type { GatewayEnv } from './request-record.js';

/** Longer than the pauses of a client that keeps its connections, so that it seldom meets a closed one. */
const KEEP_ALIVE_MS = 65_000;

/** The HTTP server of the gateway; it does not listen yet. */
export function createGatewayServer(app: Hono<GatewayEnv>): Server {
  const server = createAdaptorServer({
    async fetch(request, env) {
      const response = await app.fetch(request, env);
      // For HEAD, hono wraps the mark of an answer that was piped, and it is not known again.
      return env.outgoing.headersSent ? RESPONSE_ALREADY_SENT : response;
    },
    overrideGlobalObjects: false,
    serverOptions: { keepAliveTimeout: KEEP_ALIVE_MS },
  });
  return server as Server; // HTTP/1.1, since no other server was asked for
}
