import type { MiddlewareHandler } from 'hono';
import type { Config } from '../config.js';
import { SandboxError } from '../errors.js';
import type { Log } from '../log.js';
import type { AccessTokens } from './access-tokens.js';

/**
 * Bearer check of the container's routes. `lenient` accepts everything and warns once about a missing
 * token; `strict` takes only tokens that this emulator issued. Codes and statuses: client-seen.
 */
export function checkBearer(config: Config, tokens: AccessTokens, log: Log): MiddlewareHandler {
  let warned = false;
  return async (c, next) => {
    const header = c.req.header('authorization');
    if (config.auth === 'strict') await requireToken(header, tokens);
    else if (!header && !warned) {
      warned = true;
      log.warn('a request without an access token was accepted; the real gateway refuses it (--auth strict does too)');
    }
    await next();
  };
}

async function requireToken(header: string | undefined, tokens: AccessTokens): Promise<void> {
  if (!header) {
    throw new SandboxError(
      'MISSING_CREDENTIALS',
      'Send Authorization: Bearer <token> from POST /auth/v1/token/clientCredential',
    );
  }
  const token = /^Bearer\s+(\S+)$/i.exec(header)?.[1];
  if (token === undefined)
    throw new SandboxError('INVALID_CREDENTIALS', 'The Authorization header must be Bearer <token>');
  const verdict = await tokens.check(token);
  if (verdict === 'expired')
    throw new SandboxError('ACCESS_TOKEN_EXPIRED', 'The access token has expired; ask for a new one');
  if (verdict === 'invalid')
    throw new SandboxError('ACCESS_TOKEN_INVALID', 'The access token was not issued by this emulator');
}
