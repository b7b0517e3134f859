import { realpathSync } from 'node:fs';
import path from 'node:path';

/**
 * True when a link stands anywhere on the way from `base` to `file`, or `file` is not there. Commands
 * own what lies below `base`, and a link in the place of a directory would lead the emulator, which
 * runs outside the walls, to files of the host.
 *
 * @param base Directory above what commands can change; its own path may hold links.
 * @param file Path below `base`.
 */
export function leadsThroughLink(base: string, file: string): boolean {
  try {
    return realpathSync(file) !== path.join(realpathSync(base), path.relative(base, file));
  } catch {
    return true;
  }
}
