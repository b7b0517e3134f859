import { z } from 'zod';

/**
 * What a tool answers once it could be run: HTTP 200 in both cases. A command that exits with 1 is a
 * success here; `success:false` means that the tool itself could not do its work.
 * Evidence: client-seen.
 */
export const toolAnswerSchema = z.discriminatedUnion('success', [
  z.looseObject({ success: z.literal(true), result: z.unknown() }),
  z.looseObject({ success: z.literal(false), error: z.string() }),
]);

/**
 * Every JSON answer that is not 2xx. It joins the container's envelope (`success`, `error`) with the
 * gateway's (`code`, `message`, `requestId`), because some clients read the one and some the other.
 * Evidence: each half client-seen, the union assumed.
 */
export const errorBodySchema = z.looseObject({
  success: z.literal(false),
  error: z.string(),
  code: z.string(),
  message: z.string(),
  requestId: z.string(),
});

export type ErrorBody = z.infer<typeof errorBodySchema>;
