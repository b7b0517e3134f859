import type { BashResult } from '../../client/wire/bash.js';

/** The whole answer of a command that printed `output` and succeeded, but for `differences`. */
export function bashResult(output: string, differences: Partial<BashResult> = {}): BashResult {
  return {
    mode: 'real',
    exitCode: 0,
    output,
    truncated: false,
    timedOut: false,
    simulated: false,
    background: false,
    omittedBytes: 0,
    ...differences,
  };
}
