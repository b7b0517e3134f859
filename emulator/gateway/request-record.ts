import { randomUUID } from 'node:crypto';
import type { HttpBindings } from '@hono/node-server';
import type { MiddlewareHandler } from 'hono';
import { HEADER } from '../../client/wire/headers.js';
import type { Events, RequestRecord } from '../events.js';
import type { Log } from '../log.js';

/** What every handler of the gateway finds in its context. */
export type GatewayEnv = { Bindings: HttpBindings; Variables: { record: RequestRecord } };

/**
 * Opens the record of a request and closes it when the answer is out or the client is gone: one log
 * line and one live event, with all that was learned on the way.
 */
export function recordRequests(log: Log, events: Events): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const startedAt = performance.now();
    const record: RequestRecord = {
      requestId: randomUUID(),
      method: c.req.method,
      path: c.req.path,
      status: 0,
      durationMs: 0,
    };
    c.set('record', record);
    const { outgoing } = c.env;
    outgoing.setHeader(HEADER.requestId, record.requestId);
    outgoing.setHeader('x-cloudbase-request-id', record.requestId);
    outgoing.once('close', () => {
      record.status = outgoing.headersSent ? outgoing.statusCode : 0;
      record.durationMs = Math.round((performance.now() - startedAt) * 10) / 10;
      if (!outgoing.writableFinished) record.aborted = true;
      const { cause, ...shown } = record;
      log[cause !== undefined || record.status === 500 ? 'error' : 'info']({ event: 'request', ...record }, 'request');
      events.emit('request', shown);
    });
    await next();
  };
}
