import { z } from 'zod';

/** Default and longest time for one command, in milliseconds. Evidence: assumed (function timeout: 900 s). */
export const BASH_DEFAULT_TIMEOUT_MS = 120_000;
const BASH_MAX_TIMEOUT_MS = 900_000;

/** Bytes of output that one answer holds. Evidence: client-seen ("about 45 KB"), exact value assumed. */
export const BASH_OUTPUT_LIMIT_BYTES = 45_000;

export const bashInputSchema = z.object({
  command: z
    .string({ error: 'command is required and must be a string' })
    .min(1, 'command must not be empty')
    .refine((command) => !command.includes('\0'), 'command must not contain NUL characters'),
  timeout: z
    .number({ error: 'timeout must be a number of milliseconds' })
    .min(1, 'timeout must be at least 1 millisecond')
    .max(BASH_MAX_TIMEOUT_MS, `timeout must be at most ${BASH_MAX_TIMEOUT_MS} milliseconds`)
    .optional(),
});

/** Fields up to `simulated` are the container's (client-seen); the others are emulator-only additions. */
export const bashResultSchema = z.looseObject({
  mode: z.literal('real'),
  /** 128 + n when a signal ended the command, null when it timed out or was cancelled. */
  exitCode: z.number().int().nullable(),
  /** Standard output and standard error in the order in which they were written. */
  output: z.string(),
  truncated: z.boolean(),
  timedOut: z.boolean(),
  simulated: z.literal(false),
  /** True when processes that the command started live on after it. */
  background: z.boolean(),
  /** Bytes left out of the middle of `output`. */
  omittedBytes: z.number().int(),
});

export type BashInput = z.infer<typeof bashInputSchema>;
export type BashResult = z.infer<typeof bashResultSchema>;
