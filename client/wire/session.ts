import { z } from 'zod';

/** Bounds that keep a command's environment below what the kernel accepts. Evidence: emulator-only. */
const VARIABLE_VALUE_LIMIT_BYTES = 32 * 1024;
const VARIABLES_LIMIT_BYTES = 256 * 1024;

const variableValueSchema = z
  .string({ error: 'a variable must be a string' })
  .refine((value) => !value.includes('\0'), 'a variable must not contain NUL characters')
  .refine(
    (value) => Buffer.byteLength(value) <= VARIABLE_VALUE_LIMIT_BYTES,
    `a variable may hold at most ${VARIABLE_VALUE_LIMIT_BYTES} bytes`,
  );

export const variablesSchema = z
  .record(z.string().max(256, 'a variable name may have at most 256 characters'), variableValueSchema)
  .refine(
    (variables) =>
      Object.entries(variables).reduce((sum, [name, value]) => sum + name.length + Buffer.byteLength(value), 0) <=
      VARIABLES_LIMIT_BYTES,
    `all variables of one request may hold at most ${VARIABLES_LIMIT_BYTES} bytes`,
  );

export type Variables = z.infer<typeof variablesSchema>;

/** Body of `POST /api/session/init`. Evidence: client-seen. */
export const sessionInitInputSchema = z.object({
  env: variablesSchema.optional(),
  /** Passes the gate for ids where it is used, like the one in a header. */
  conversationId: z.string({ error: 'conversationId must be a string' }).optional(),
});

/** Evidence: `workspace` at the top level is client-seen, `result` assumed; both forms are served. */
export const sessionInitAnswerSchema = z.looseObject({
  success: z.literal(true),
  workspace: z.string(),
  result: z.looseObject({
    workspace: z.string(),
    sessionId: z.string(),
    conversationId: z.string().nullable(),
    restored: z.boolean(),
  }),
});
