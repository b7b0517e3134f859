import { z } from 'zod';

/**
 * The one gate for identifiers. Every id that arrives from outside passes here before it becomes a
 * path, a log field or a branch name, so none of them can carry a slash, a quote or `..`.
 *
 * The session charset is wider than the platform's documented `[A-Za-z0-9_-]` because the design
 * proposes `envId:userId` for isolation by user. Evidence: assumed.
 */
const SESSION_ID = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$/;
const CONVERSATION_ID = /^[A-Za-z0-9_][A-Za-z0-9._:@+=-]{0,127}$/;
/** Documented name pattern of a cloud function. */
const FUNCTION_NAME = /^[a-zA-Z][a-zA-Z0-9_-]{0,58}[a-zA-Z0-9]$/;

export const sessionIdSchema = z
  .string()
  .regex(SESSION_ID, 'must be 1 to 128 characters from A-Z a-z 0-9 _ . : - and begin with a letter or digit');

export const conversationIdSchema = z
  .string()
  .regex(
    CONVERSATION_ID,
    'must be 1 to 128 characters from A-Z a-z 0-9 . _ : @ + = - and begin with a letter, digit or _',
  );

export const functionNameSchema = z
  .string()
  .regex(
    FUNCTION_NAME,
    'must be 2 to 60 characters from A-Z a-z 0-9 _ -, begin with a letter and end with a letter or digit',
  );

/** The function whose routes are also served at the root. Evidence: client-seen. */
export const DEFAULT_FUNCTION_NAME = 'sandbox-shared';
