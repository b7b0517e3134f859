import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createOutputWindow } from '../../../../emulator/workspace/output-window.js';

const LIMIT = 400;

function read(chunks: Buffer[], limitBytes = LIMIT) {
  const window = createOutputWindow(limitBytes);
  for (const chunk of chunks) window.push(chunk);
  return window.read();
}

/** `bytes` in pieces of the given lengths, the rest as the last one. */
function split(bytes: Buffer, lengths: number[]): Buffer[] {
  const chunks: Buffer[] = [];
  let start = 0;
  for (const length of lengths) {
    chunks.push(bytes.subarray(start, start + length));
    start += length;
  }
  return [...chunks, bytes.subarray(start)];
}

const chunkLengths = fc.array(fc.integer({ min: 0, max: 50 }), { maxLength: 60 });
const anyBytes = fc.uint8Array({ maxLength: 4 * LIMIT }).map((bytes) => Buffer.from(bytes));
const shortText = fc
  .string({ unit: 'binary', maxLength: LIMIT / 4 })
  .filter((text) => Buffer.byteLength(text) <= LIMIT && !text.includes('\ufffd'));
const longText = fc
  .string({ unit: 'binary', minLength: LIMIT / 4, maxLength: 4 * LIMIT })
  .filter((text) => Buffer.byteLength(text) > LIMIT && !text.includes('\ufffd'));

describe('an output window', () => {
  it('reads the same however the bytes arrive', () => {
    fc.assert(
      fc.property(anyBytes, chunkLengths, (bytes, lengths) => {
        expect(read(split(bytes, lengths))).toEqual(read([bytes]));
      }),
    );
  });

  it('keeps output up to the limit whole', () => {
    fc.assert(
      fc.property(shortText, chunkLengths, (text, lengths) => {
        const whole = { text, truncated: false, omittedBytes: 0 };
        expect(read(split(Buffer.from(text), lengths))).toEqual(whole);
      }),
    );
  });

  it('turns bytes that are not UTF-8 into U+FFFD when nothing is left out', () => {
    fc.assert(
      fc.property(anyBytes, (bytes) => {
        const kept = bytes.subarray(0, LIMIT);
        expect(read([kept])).toEqual({ text: kept.toString('utf8'), truncated: false, omittedBytes: 0 });
      }),
    );
  });

  it('keeps head and tail of longer text within the limit, cut between characters, and counts the rest', () => {
    fc.assert(
      fc.property(longText, chunkLengths, (printed, lengths) => {
        const { text, truncated, omittedBytes } = read(split(Buffer.from(printed), lengths));
        const notice = `\n\n... [${omittedBytes} bytes left out] ...\n\n`;
        const at = text.indexOf(notice);
        const [head, tail] = [text.slice(0, at), text.slice(at + notice.length)];
        expect(truncated && at >= 0).toBe(true);
        expect(printed.startsWith(head) && printed.endsWith(tail)).toBe(true);
        expect(Buffer.byteLength(head) + omittedBytes + Buffer.byteLength(tail)).toBe(Buffer.byteLength(printed));
        expect(Buffer.byteLength(text)).toBeLessThanOrEqual(LIMIT);
        expect(text).not.toContain('\ufffd');
      }),
    );
  });

  it.each([0, 1, 399, 400])('keeps %i bytes whole under a limit of 400', (length) => {
    expect(read([Buffer.alloc(length, 'x')])).toEqual({ text: 'x'.repeat(length), truncated: false, omittedBytes: 0 });
  });

  it('leaves out the middle from one byte above the limit', () => {
    const text = `${'x'.repeat(150)}\n\n... [101 bytes left out] ...\n\n${'x'.repeat(150)}`;
    expect(read([Buffer.alloc(401, 'x')])).toEqual({ text, truncated: true, omittedBytes: 101 });
  });

  it('can be read again while more arrives', () => {
    const window = createOutputWindow(LIMIT);
    window.push(Buffer.from('one'));
    expect(window.read().text).toBe('one');
    window.push(Buffer.from(' two'));
    expect(window.read().text).toBe('one two');
  });
});
