import { Duplex } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { createLineChannel } from '../../../emulator/line-channel.js';

/** A stream whose incoming side the test feeds, and what the channel made of it. */
function listenTo(longestLine: number) {
  const written: string[] = [];
  const stream = new Duplex({
    read() {},
    write(chunk, _encoding, done) {
      written.push(String(chunk));
      done();
    },
  });
  const heard: unknown[] = [];
  const channel = createLineChannel(stream, longestLine, {
    onMessage: (message) => heard.push(message) > 0 && message !== 'unwanted',
    onViolation: () => heard.push('violation'),
    onEnd: () => heard.push('end'),
  });
  const feed = async (...chunks: string[]) => {
    for (const chunk of chunks) stream.push(chunk);
    await new Promise(setImmediate);
  };
  return { channel, stream, heard, written, feed };
}

describe('a channel of lines', () => {
  it('gives each message once, however it is cut', async () => {
    const { heard, feed } = listenTo(100);
    await feed('{"a":', '1}\n{"b"', ':"é"}\n', '[]\n');
    expect(heard).toEqual([{ a: 1 }, { b: 'é' }, []]);
  });

  it.each(['garbage\n', '\n', '{"cmd":"NODE_HANDLE_ACK"\n', `"${'x'.repeat(200)}"\n`, 'x'.repeat(200)])(
    'ends at a line that is not JSON or too long: %j',
    async (bad) => {
      const { heard, stream, feed } = listenTo(100);
      await feed('{"a":1}\n', bad, '{"b":2}\n');
      expect(heard).toEqual([{ a: 1 }, 'violation', 'end']);
      expect(stream.destroyed).toBe(true);
    },
  );

  it('ends at a message that is not wanted, and hears nothing after it', async () => {
    const { heard, feed } = listenTo(100);
    await feed('"unwanted"\n"more"\n'.repeat(1000), '"more"\n');
    expect(heard).toEqual(['unwanted', 'violation', 'end']);
  });

  it('takes what Node would take for its own word as any other message', async () => {
    const { heard, feed } = listenTo(100);
    await feed('{"cmd":"NODE_HANDLE_ACK"}\n');
    expect(heard).toEqual([{ cmd: 'NODE_HANDLE_ACK' }]);
  });

  it('writes one line a message and rejects when the other end is gone', async () => {
    const { channel, stream, written } = listenTo(100);
    await channel.send({ text: 'two\nlines' });
    expect(written).toEqual(['{"text":"two\\nlines"}\n']);
    stream.destroy();
    await expect(channel.send({})).rejects.toThrow();
  });
});
