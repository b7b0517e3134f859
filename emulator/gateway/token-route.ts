import { createHash, timingSafeEqual } from 'node:crypto';
import { Hono } from 'hono';
import { z } from 'zod';
import { SandboxError } from '../errors.js';
import { allowOnly } from '../method-not-allowed.js';
import type { AccessTokens } from './access-tokens.js';
import { limitBody } from './body-limit.js';
import type { KeyPair } from './key-pair.js';

const TOKEN_PATH = '/auth/v1/token/clientCredential';

const tokenRequestSchema = z.object({ grant_type: z.literal('client_credentials') });

/**
 * `POST /auth/v1/token/clientCredential`: a key pair for an access token. Evidence: client-seen.
 *
 * The pair comes as `Basic base64(id:key)` or in a `TC3-HMAC-SHA256` header.
 *
 * @param required The one pair that is accepted; undefined accepts any.
 */
export function createTokenRoute(tokens: AccessTokens, required: KeyPair | undefined): Hono {
  const app = new Hono();
  app.post(TOKEN_PATH, limitBody, async (c) => {
    if (!tokenRequestSchema.safeParse(await c.req.json().catch(() => undefined)).success) {
      throw new SandboxError('INVALID_REQUEST', 'The body must be {"grant_type":"client_credentials"}');
    }
    const subject = identify(c.req.header('authorization'), required);
    const accessToken = await tokens.issue(subject);
    return c.json({ token_type: 'Bearer', access_token: accessToken, expires_in: tokens.ttlSeconds });
  });
  app.all(TOKEN_PATH, allowOnly('POST'));
  return app;
}

function identify(header: string | undefined, required: KeyPair | undefined): string {
  if (!header) {
    throw new SandboxError('MISSING_CREDENTIALS', 'Send Authorization: Basic base64(SecretId:SecretKey)');
  }
  const basic = /^Basic\s+([A-Za-z0-9+/]+=*)$/i.exec(header)?.[1];
  if (basic !== undefined) return identifyPair(Buffer.from(basic, 'base64').toString('utf8'), required);
  const signed = /^TC3-HMAC-SHA256\s+Credential=([^/,\s]+)/i.exec(header)?.[1];
  if (signed === undefined)
    throw new SandboxError('INVALID_CREDENTIALS', 'The Authorization header is neither Basic nor TC3-HMAC-SHA256');
  if (required) {
    throw new SandboxError(
      'INVALID_CREDENTIALS',
      'The emulator does not verify TC3 signatures; where a key pair is required, send it as Basic',
    );
  }
  return signed;
}

function identifyPair(pair: string, required: KeyPair | undefined): string {
  const colon = pair.indexOf(':');
  if (colon < 1 || colon === pair.length - 1) {
    throw new SandboxError('INVALID_CREDENTIALS', 'Basic credentials must be SecretId:SecretKey, both not empty');
  }
  if (required && !equalInConstantTime(pair, `${required.secretId}:${required.secretKey}`)) {
    throw new SandboxError(
      'INVALID_CREDENTIALS',
      'This SecretId and SecretKey are not the ones that the emulator was started with',
    );
  }
  return pair.slice(0, colon);
}

function equalInConstantTime(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
