import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { Readable } from 'node:stream';
import { SandboxConnectionError } from './errors.js';

export type RequestInput = {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  signal?: AbortSignal;
};

/** Statuses whose answer has no body by definition. */
const BODILESS = new Set([204, 205, 304]);

/**
 * Sends one request and resolves with its answer once the headers are there. It stands in for `fetch`,
 * which gives up on headers after 300 s where a command may take 900 s.
 *
 * @throws SandboxConnectionError when there is no answer.
 */
export async function send(url: string, input: RequestInput = {}): Promise<Response> {
  const answer = await exchange(new URL(url), input);
  const status = answer.statusCode ?? 0;
  const headers = new Headers();
  for (const [name, values] of Object.entries(answer.headersDistinct))
    for (const value of values ?? []) headers.append(name, value);
  if (BODILESS.has(status)) {
    answer.resume();
    return new Response(null, { status, headers });
  }
  const body = Readable.from(readBody(answer, new URL(url), input.signal), { objectMode: false });
  // Node's web streams and the global ones are the same at run time; their types differ.
  return new Response(Readable.toWeb(body) as ReadableStream<Uint8Array>, { status, headers });
}

/**
 * Reads a body as JSON; undefined for one that is something else, such as the HTML page of a proxy.
 *
 * @throws SandboxConnectionError when the body was cut or the time was up.
 */
export async function readJson(response: Response): Promise<unknown> {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** An answer that breaks off is no answer. */
async function* readBody(answer: IncomingMessage, url: URL, signal: AbortSignal | undefined): AsyncGenerator<Buffer> {
  try {
    yield* answer;
  } catch (error) {
    throw toConnectionError(error instanceof Error ? error : new Error(String(error)), url, signal);
  }
}

function exchange(url: URL, { method = 'GET', headers = {}, body, signal }: RequestInput): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const start = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const length = body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(body)) };
    const outgoing = start(url, { method, headers: { ...headers, ...length }, signal });
    outgoing.once('response', resolve);
    outgoing.on('error', (error) => reject(toConnectionError(error, url, signal)));
    outgoing.end(body);
  });
}

function toConnectionError(
  error: Error & { code?: string },
  url: URL,
  signal: AbortSignal | undefined,
): SandboxConnectionError {
  if (signal?.aborted) {
    const timedOut = signal.reason instanceof DOMException && signal.reason.name === 'TimeoutError';
    const text = timedOut ? `No answer from ${url.origin} in time` : `The request to ${url.origin} was aborted`;
    return new SandboxConnectionError(text, timedOut ? 'TIMEOUT' : 'ABORTED', { cause: error });
  }
  return new SandboxConnectionError(`No answer from ${url.origin}: ${error.message}`, error.code ?? 'UNKNOWN', {
    cause: error,
  });
}
