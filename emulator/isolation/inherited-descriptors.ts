import { openSync, readdirSync, readFileSync } from 'node:fs';

const CLOSE_ON_EXEC = 0o2000000;

/**
 * `stdio` entries that cover every descriptor which this process was itself started with and would
 * pass on: an open file or directory of the developer's shell would be a hole in the wall. Node's own
 * descriptors close by themselves. Above the third, `ignore` would leave an inherited descriptor as it
 * is, so each is covered by `/dev/null`; without gaps, since a Node that is started with them closes
 * such a row for its own children.
 *
 * @param from Number of the first descriptor that the caller does not set itself.
 */
export function coverInherited(from: number): number[] {
  const highest = Math.max(from - 1, ...inheritableDescriptors());
  if (highest < from) return [];
  const cover = openNothing();
  return Array.from({ length: highest - from + 1 }, () => cover);
}

let nothing: number | undefined;

/** One descriptor of `/dev/null` for the life of this process. */
function openNothing(): number {
  nothing ??= openSync('/dev/null', 'r');
  return nothing;
}

function inheritableDescriptors(): number[] {
  try {
    return readdirSync('/proc/self/fdinfo').map(Number).filter(isInheritable);
  } catch {
    return []; // no /proc
  }
}

function isInheritable(fd: number): boolean {
  try {
    const flags = /^flags:\s+([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch {
    return false; // the descriptor of the listing itself
  }
}
