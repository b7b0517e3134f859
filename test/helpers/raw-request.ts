import { Agent, type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http';

export type RawRequest = {
  method?: string;
  /** As it stands in the request line; nothing is normalised. */
  path?: string;
  headers?: OutgoingHttpHeaders;
  body?: string | Uint8Array;
  /** Sends the body without its length. */
  chunked?: boolean;
};

export type RawAnswer = { status: number; headers: IncomingHttpHeaders; text: string };

/** Sends what `fetch` would not: any Host, Origin, request line and body. The connection asks to be kept. */
export function rawRequest(url: string, { path = '/', chunked, body, ...rest }: RawRequest): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  const agent = new Agent({ keepAlive: true });
  const framing = chunked
    ? { 'Transfer-Encoding': 'chunked' }
    : body === undefined
      ? {}
      : { 'Content-Length': Buffer.byteLength(body) };
  return new Promise<RawAnswer>((resolve, reject) => {
    const outgoing = request({ ...rest, hostname, port, path, agent, headers: { ...rest.headers, ...framing } });
    outgoing.once('response', async (answer) => {
      const chunks: Buffer[] = [];
      try {
        for await (const chunk of answer) chunks.push(chunk);
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text: Buffer.concat(chunks).toString() });
      } catch (error) {
        reject(error);
      }
    });
    // After an early answer the rest of a body may find the connection closed.
    outgoing.on('error', reject);
    outgoing.end(body);
  }).finally(() => agent.destroy());
}
