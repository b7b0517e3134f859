import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { ErrorBody } from '../client/wire/envelope.js';

/**
 * Every failure that a caller can meet outside a tool's own answer: code → HTTP status.
 *
 * Evidence: the 401 codes and their status are documented by the real gateway (client-seen); 443 was
 * seen live for a container that did not boot (recorded), for one that dies under a request it is
 * assumed; the others are emulator-only names on standard statuses.
 */
const STATUS = {
  INVALID_REQUEST: 400,
  MALFORMED_JSON: 400,
  MISSING_SESSION_ID: 400,
  INVALID_SESSION_ID: 400,
  INVALID_CONVERSATION_ID: 400,
  INVALID_FUNCTION_NAME: 400,
  FOREIGN_ORIGIN: 400,
  MISSING_CREDENTIALS: 401,
  INVALID_CREDENTIALS: 401,
  ACCESS_TOKEN_INVALID: 401,
  ACCESS_TOKEN_EXPIRED: 401,
  ACCESS_DENIED: 403,
  NOT_FOUND: 404,
  TOOL_NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  WORKSPACE_UNUSABLE: 409,
  REQUEST_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  FOREIGN_HOST: 421,
  INSTANCE_START_FAILED: 443,
  INSTANCE_CRASHED: 443,
  INTERNAL: 500,
  SESSION_STARTING: 503,
  SHUTTING_DOWN: 503,
} as const satisfies Record<string, number>;

export type ErrorCode = keyof typeof STATUS;

/** A failure that is expected and has a code. Everything else that is thrown becomes `INTERNAL`. */
export class SandboxError extends Error {
  readonly code: ErrorCode;

  /** @param message What is wrong, where, and what to do next. It is shown to the caller. */
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SandboxError';
    this.code = code;
  }

  get status(): ContentfulStatusCode {
    // 421 and 443 are outside hono's list of statuses, and both are answers of this service.
    return STATUS[this.code] as ContentfulStatusCode;
  }
}

/** Turns whatever was thrown into a `SandboxError`; the text of an unexpected one stays in the log. */
export function toSandboxError(thrown: unknown): SandboxError {
  if (thrown instanceof SandboxError) return thrown;
  return new SandboxError(
    'INTERNAL',
    'The emulator failed unexpectedly; its log has the cause under this request id.',
    {
      cause: thrown,
    },
  );
}

/** The one body of every JSON answer that is not 2xx. */
export function toErrorBody(error: SandboxError, requestId: string): ErrorBody {
  return { success: false, error: error.message, code: error.code, message: error.message, requestId };
}

/** The system's code of a failed call (`ENOENT`, `EADDRINUSE` …), or undefined for any other value. */
export function systemErrorCode(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown)) return undefined;
  return typeof thrown.code === 'string' ? thrown.code : undefined;
}
