import type { Duplex } from 'node:stream';

/**
 * JSON messages over a stream, one a line. It stands in for Node's own IPC, which parses what arrives
 * before anybody can look at it and ends the receiving process when it is not what Node would send.
 */
export type LineChannel = {
  /** Resolves when the message has been handed to the system; rejects when the other end is gone. */
  send(message: unknown): Promise<void>;
};

export type LineChannelHandlers = {
  /** @returns False when the message is not one that may come; it is a violation then. */
  onMessage(message: unknown): boolean;
  /** A line that is too long, not JSON, or was refused. Nothing after it is read. */
  onViolation(): void;
  onEnd(): void;
};

/** @param longestLine Length in characters at which a line is too long. */
export function createLineChannel(stream: Duplex, longestLine: number, handlers: LineChannelHandlers): LineChannel {
  let parts: string[] = [];
  let length = 0;

  function take(chunk: string): void {
    let rest = chunk;
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n')) {
      const line = [...parts, rest.slice(0, end)].join('');
      rest = rest.slice(end + 1);
      parts = [];
      length = 0;
      const message = line.length > longestLine ? undefined : parse(line);
      if (message === undefined || !handlers.onMessage(message)) {
        refuse();
        return;
      }
    }
    parts.push(rest);
    length += rest.length;
    if (length > longestLine) refuse();
  }

  function refuse(): void {
    stream.off('data', take);
    stream.destroy();
    handlers.onViolation();
  }

  stream.setEncoding('utf8');
  stream.on('data', take);
  stream.on('error', () => {}); // the other end is gone, which 'close' tells
  stream.once('close', () => handlers.onEnd());

  return {
    send: (message) =>
      new Promise((resolve, reject) => {
        stream.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(error) : resolve()));
      }),
  };
}

/** Undefined for a line that is not JSON. */
function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
