import { bodyLimit } from 'hono/body-limit';
import { SandboxError } from '../errors.js';

/** Largest request body, in bytes. Evidence: client-seen for events (6 MB), assumed for web functions. */
export const BODY_LIMIT_BYTES = 6 * 1024 * 1024;

export function tooLarge(): SandboxError {
  return new SandboxError('REQUEST_TOO_LARGE', `The body is larger than ${BODY_LIMIT_BYTES} bytes; send less at once`);
}

/** For routes that the gateway answers itself; what is piped is counted on its way. */
export const limitBody = bodyLimit({
  maxSize: BODY_LIMIT_BYTES,
  onError: () => {
    throw tooLarge();
  },
});
