import {
  type ClientRequest,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { HEADER } from '../../client/wire/headers.js';
import { SandboxError } from '../errors.js';
import type { RequestRecord } from '../events.js';
import { decodeTrace, TRACE_HEADER } from '../instance-protocol.js';
import { BODY_LIMIT_BYTES, tooLarge } from './body-limit.js';
import type { InstanceProcess } from './instance-process.js';

/** How long a failed connection waits to learn that the instance behind it has died. */
const DEATH_NOTICE_MS = 1_000;

/** Headers of one connection, which a proxy must not pass on. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
]);
/** The token is the gateway's business; code inside an instance has no use for it but a bad one. */
const NOT_FOR_INSTANCES = new Set(['authorization', 'x-cloudbase-authorization', TRACE_HEADER]);

export type ForwardRequest = {
  incoming: IncomingMessage;
  outgoing: ServerResponse;
  /** Path and query as the container sees them. */
  path: string;
  sessionId: string;
  record: RequestRecord;
};

/**
 * Pipes one request to an instance and the answer back, byte by byte: the gateway never parses a body,
 * since each copy of a megabyte costs milliseconds.
 *
 * @returns False when the instance had died before it took the body: the caller may try another.
 * @throws SandboxError when the instance died under the request and no header was answered yet.
 */
export async function forward(request: ForwardRequest, instance: InstanceProcess): Promise<boolean> {
  const { incoming, outgoing, record } = request;
  refuseKnownOversize(incoming);
  if (outgoing.destroyed || incoming.destroyed) return true; // the client left while the instance started
  record.instance = instance.id;
  const startedAt = performance.now();
  const upstream = httpRequest({
    socketPath: instance.socketPath,
    agent: instance.agent,
    method: incoming.method,
    path: request.path,
    headers: toUpstreamHeaders(request),
  });
  upstream.on('error', () => {}); // also after the answer, when nobody else listens any more
  const leave = () => upstream.destroy();
  outgoing.once('close', leave);
  const body = sendWhenAsked(incoming, upstream);
  try {
    const answer = await Promise.race([answerOf(upstream), body.refused]);
    takeTrace(answer.headers, record);
    const elapsedMs = performance.now() - startedAt;
    outgoing.writeHead(answer.statusCode ?? 0, toDownstreamHeaders(answer, request, instance, elapsedMs));
    // A cut answer means a cut connection: headers are out, and nothing else can tell the client.
    await pipeline(answer, outgoing).catch(() => outgoing.destroy());
    return true;
  } catch (error) {
    upstream.destroy();
    if (outgoing.destroyed) return true; // the client is gone; there is nobody to tell
    if (error instanceof SandboxError) throw error;
    const died = await Promise.race([instance.ended.then(() => true), delay(DEATH_NOTICE_MS, false, { ref: false })]);
    if (!body.taken()) return false;
    throw new SandboxError('INSTANCE_CRASHED', crashText(died), { cause: error });
  } finally {
    outgoing.off('close', leave);
  }
}

function crashText(died: boolean): string {
  return died
    ? 'The sandbox ended while it worked on this request. Its files are kept; the next request gets a new instance.'
    : 'The sandbox cut the connection while it worked on this request.';
}

/** Waits for the head of an answer that may be passed on: no change of protocol, and a status that HTTP knows. */
function answerOf(upstream: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    upstream.once('error', reject);
    upstream.once('close', () => reject(new Error('the connection was closed without an answer')));
    upstream.once('upgrade', (_answer, socket) => {
      socket.destroy();
      reject(new Error('the instance asked for another protocol'));
    });
    upstream.once('response', (answer) => {
      const { statusCode = 0 } = answer;
      if (statusCode >= 200 && statusCode <= 599) resolve(answer);
      else reject(new Error(`the instance answered with status ${statusCode}`));
    });
  });
}

/**
 * Sends the body once the instance asks for it with `100 Continue`. Until then nothing can have
 * happened on the other side, so that a request which met a dead instance, over a connection that was
 * kept open, can be sent to the next one. Requests without a body change nothing and need no asking.
 */
function sendWhenAsked(incoming: IncomingMessage, upstream: ClientRequest) {
  let taken = false;
  let refuse: (error: SandboxError) => void = () => {};
  const refused = new Promise<never>((_, reject) => {
    refuse = reject;
  });
  refused.catch(() => {});
  if (!hasBody(incoming)) upstream.end();
  upstream.once('continue', () => {
    taken = true;
    let received = 0;
    incoming.on('data', (chunk: Buffer) => {
      received += chunk.length;
      if (received <= BODY_LIMIT_BYTES) return;
      refuse(tooLarge());
      upstream.destroy();
    });
    incoming.pipe(upstream);
  });
  return { taken: () => taken, refused };
}

function hasBody(incoming: IncomingMessage): boolean {
  return incoming.headers['transfer-encoding'] !== undefined || Number(incoming.headers['content-length'] ?? 0) > 0;
}

function refuseKnownOversize(incoming: IncomingMessage): void {
  if (Number(incoming.headers['content-length'] ?? 0) > BODY_LIMIT_BYTES) throw tooLarge();
}

function toUpstreamHeaders({ incoming, sessionId, record }: ForwardRequest): OutgoingHttpHeaders {
  const headers = withoutHopByHop(incoming.headers);
  for (const name of NOT_FOR_INSTANCES) delete headers[name];
  if (incoming.headers['transfer-encoding']) headers['transfer-encoding'] = 'chunked';
  if (hasBody(incoming)) headers.expect = '100-continue';
  return { ...headers, [HEADER.sessionId]: sessionId, [HEADER.requestId]: record.requestId };
}

/** What the real gateway adds to a container's answer. Evidence: recorded (field reports); unit of the time cost: assumed. */
function toDownstreamHeaders(
  answer: IncomingMessage,
  request: ForwardRequest,
  instance: InstanceProcess,
  elapsedMs: number,
): OutgoingHttpHeaders {
  const { [TRACE_HEADER]: _trace, ...headers } = withoutHopByHop(answer.headers);
  const status = String(answer.statusCode);
  return {
    ...headers,
    ...gatewayHeaders(request.record.requestId, request.sessionId, status, elapsedMs),
    [HEADER.emulatorInstance]: instance.id,
  };
}

/** Name of the real gateway in its answers. Evidence: recorded (field reports). */
export const SERVER = 'tcbgw';

export function gatewayHeaders(
  requestId: string,
  sessionId: string,
  upstreamStatus: string,
  elapsedMs: number,
): Record<string, string> {
  return {
    server: SERVER,
    [HEADER.requestId]: requestId,
    'x-cloudbase-request-id': requestId,
    'x-cloudbase-session-id': sessionId,
    'x-cloudbase-upstream-status-code': upstreamStatus,
    'x-cloudbase-upstream-timecost': String(Math.round(elapsedMs)),
    'x-cloudbase-upstream-type': 'Tencent-SCF_HTTP',
    'x-upstream-status-code': upstreamStatus,
  };
}

function withoutHopByHop(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const named = new Set((headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase()));
  // Without its length the body of a GET would be read as a second request that nobody saw.
  named.delete('content-length');
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name) && !named.has(name)));
}

function takeTrace(headers: IncomingHttpHeaders, record: RequestRecord): void {
  const trace = headers[TRACE_HEADER];
  // An instance that writes nonsense here spoils its own log line only.
  if (typeof trace === 'string') Object.assign(record, decodeTrace(trace));
}
