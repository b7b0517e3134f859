/**
 * Keeps the beginning and the end of a stream in bounded memory and knows how many bytes lie between.
 * Output up to the limit is kept whole; of a longer one, the first and the last part are kept, cut
 * where a UTF-8 character begins.
 */
export function createOutputWindow(limitBytes: number) {
  const partBytes = Math.floor((limitBytes - NOTICE_RESERVE_BYTES) / 2);
  const head = Buffer.alloc(limitBytes);
  let headBytes = 0;
  let tail: Buffer[] = [];
  let tailBytes = 0;
  let totalBytes = 0;

  return {
    push(chunk: Buffer): void {
      totalBytes += chunk.length;
      headBytes += chunk.copy(head, headBytes);
      tail.push(chunk);
      tailBytes += chunk.length;
      // Joining now and then keeps a flood of one-byte writes from becoming a flood of small buffers.
      if (tail.length > 256) tail = [Buffer.concat(tail)];
      while (tail[0] && tailBytes - tail[0].length >= partBytes) tailBytes -= tail.shift()?.length ?? 0;
    },

    /** The text so far; bytes that are not UTF-8 become U+FFFD. */
    read(): { text: string; truncated: boolean; omittedBytes: number } {
      if (totalBytes <= limitBytes)
        return { text: head.toString('utf8', 0, headBytes), truncated: false, omittedBytes: 0 };
      const first = head.subarray(0, endOfLastCharacter(head.subarray(0, partBytes)));
      const end = Buffer.concat(tail);
      const rest = end.subarray(Math.max(0, end.length - partBytes));
      const last = rest.subarray(startOfFirstCharacter(rest));
      const omittedBytes = totalBytes - first.length - last.length;
      const notice = `\n\n... [${omittedBytes} bytes left out] ...\n\n`;
      return { text: first.toString('utf8') + notice + last.toString('utf8'), truncated: true, omittedBytes };
    },
  };
}

export type OutputWindow = ReturnType<typeof createOutputWindow>;

/** Room for the notice between the two parts, so that the whole text stays below the limit. */
const NOTICE_RESERVE_BYTES = 100;
const LONGEST_CHARACTER_BYTES = 4;

const isContinuation = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80;

/** Length of `bytes` without a character that is begun but not finished at its end. */
function endOfLastCharacter(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(LONGEST_CHARACTER_BYTES, bytes.length); back++) {
    const byte = bytes[bytes.length - back];
    if (isContinuation(byte)) continue;
    return back < characterBytes(byte) ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

/** Number of bytes at the start of `bytes` that belong to a character begun before it. */
function startOfFirstCharacter(bytes: Buffer): number {
  let start = 0;
  while (start < LONGEST_CHARACTER_BYTES - 1 && isContinuation(bytes[start])) start++;
  return start;
}

function characterBytes(lead: number | undefined): number {
  if (lead === undefined || lead < 0xc0) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}
