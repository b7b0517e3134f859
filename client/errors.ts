/** The service answered, and the answer was an error or not what it should be. */
export class SandboxAnswerError extends Error {
  override name = 'SandboxAnswerError';

  constructor(
    message: string,
    readonly status: number,
    /** The service's own code, such as `ACCESS_TOKEN_EXPIRED`; undefined when the body had none. */
    readonly code?: string,
    readonly requestId?: string,
    /** True when the same request may succeed later. */
    readonly retryable = [429, 430, 432, 443, 502, 503, 504].includes(status),
  ) {
    super(message);
  }
}

/** There was no answer: no connection, a cut one, or the time was up. */
export class SandboxConnectionError extends Error {
  override name = 'SandboxConnectionError';

  constructor(
    message: string,
    /** The system's code, such as `ECONNREFUSED`, or `TIMEOUT`, or `ABORTED`. */
    readonly code: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
