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
  onMessage(message: unknown): void;
  /** A line that is too long or not JSON. Nothing after it is read. */
  onViolation(): void;
  onEnd(): void;
};

/** @param longestLine Length in characters at which a line is too long. */
export function createLineChannel(stream: Duplex, longestLine: number, handlers: LineChannelHandlers): LineChannel {
  let pending = '';
  const refuse = () => {
    stream.off('data', take);
    stream.destroy();
    handlers.onViolation();
  };
  function take(chunk: string): void {
    const lines = (pending + chunk).split('\n');
    pending = lines.pop() ?? '';
    for (const line of lines) {
      const message = line.length > longestLine ? undefined : parse(line);
      if (message === undefined) {
        refuse();
        return;
      }
      handlers.onMessage(message);
    }
    if (pending.length > longestLine) refuse();
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
