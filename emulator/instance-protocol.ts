import { z } from 'zod';
import { conversationIdSchema, sessionIdSchema } from '../client/wire/ids.js';
import { variablesSchema } from '../client/wire/session.js';

/**
 * What the gateway and an instance say to each other over the channel on descriptor 3. Requests travel over the
 * instance's Unix socket; the channel carries only its life. Each side parses what it receives: to the
 * gateway an instance is as untrusted as the commands that run in it.
 */
const heldVariablesSchema = z.record(z.string(), z.string());
const variablesSnapshotSchema = z.object({
  session: heldVariablesSchema,
  conversations: z.record(z.string(), heldVariablesSchema),
});

/** Sent once, when the instance is given its session. */
const assignSchema = z.object({
  type: z.literal('assign'),
  functionName: z.string(),
  sessionId: sessionIdSchema,
  /** Path of the session root as the instance sees it. */
  sessionRoot: z.string(),
  variables: variablesSnapshotSchema,
  isolation: z.enum(['namespace', 'none']),
  network: z.enum(['shared']),
  strictFields: z.boolean(),
  cancelOnDisconnect: z.boolean(),
});

export const toInstanceSchema = z.discriminatedUnion('type', [assignSchema, z.object({ type: z.literal('stop') })]);

export const fromInstanceSchema = z.discriminatedUnion('type', [
  /** The Unix socket listens. */
  z.object({ type: z.literal('listening') }),
  /** The session is assigned; requests may come. */
  z.object({ type: z.literal('ready') }),
  /** A client set variables; the next generation needs them too. */
  z.object({
    type: z.literal('variables'),
    values: variablesSchema,
    conversationId: conversationIdSchema.optional(),
  }),
]);

export type Assignment = z.infer<typeof assignSchema>;
export type ToInstance = z.infer<typeof toInstanceSchema>;
export type FromInstance = z.infer<typeof fromInstanceSchema>;

/**
 * Response header by which an instance tells the gateway what its log line should say. The gateway removes it; clients never see it.
 */
export const TRACE_HEADER = 'x-instance-trace';

const traceSchema = z.object({
  conversationId: conversationIdSchema.optional(),
  tool: z.string().max(64).optional(),
  command: z.string().max(200).optional(),
  exitCode: z.number().int().nullable().optional(),
  timedOut: z.boolean().optional(),
  background: z.boolean().optional(),
  warning: z.string().max(500).optional(),
  /** Cause of an `INTERNAL` answer, for the log only. */
  cause: z.string().max(2000).optional(),
});

/** What the instance knows about one request and the gateway logs. */
export type Trace = z.infer<typeof traceSchema>;

export function encodeTrace(trace: Trace): string {
  return Buffer.from(JSON.stringify(trace)).toString('base64url');
}

/** Empty for anything that is not an encoded trace. */
export function decodeTrace(encoded: string): Trace {
  try {
    return traceSchema.safeParse(JSON.parse(Buffer.from(encoded, 'base64url').toString('utf8'))).data ?? {};
  } catch {
    return {};
  }
}
