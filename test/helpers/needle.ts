import { randomBytes } from 'node:crypto';

/** A value to be searched for, and a regular expression that finds it without holding it. */
export type Needle = { value: string; pattern: string };

/**
 * A random secret. Commands search for its pattern: a command that held the secret itself would find
 * its own arguments.
 */
export function makeNeedle(): Needle {
  const value = `needle${randomBytes(8).toString('hex')}`;
  return { value, pattern: `[n]${value.slice(1)}` };
}

/** Shell words that print the names of those files that hold the needle; never blocks. */
export function namesFilesWith({ pattern }: Needle): string {
  return `timeout 20 grep -lasD skip -- '${pattern}'`;
}
