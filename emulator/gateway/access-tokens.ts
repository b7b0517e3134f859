import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { sign, verify } from 'hono/jwt';
import { JwtTokenExpired } from 'hono/utils/jwt/types';
import { readOrMake } from '../files.js';

export type TokenVerdict = 'valid' | 'expired' | 'invalid';

/**
 * Issues and checks access tokens. They are signed with a key in the data directory, so that they
 * survive a restart. The real service's tokens are JWTs too. Evidence of the form: client-seen.
 */
export async function createAccessTokens(dataDir: string, ttlSeconds: number) {
  const key = await readOrMake(path.join(dataDir, 'token-key'), () => randomBytes(32).toString('hex'));
  return {
    ttlSeconds,

    /** @param subject The secret id that asked for the token. */
    issue(subject: string, nowSeconds = Math.floor(Date.now() / 1000)): Promise<string> {
      return sign({ sub: subject, iat: nowSeconds, exp: nowSeconds + ttlSeconds }, key, 'HS256');
    },

    async check(token: string): Promise<TokenVerdict> {
      try {
        await verify(token, key, 'HS256');
        return 'valid';
      } catch (error) {
        return error instanceof JwtTokenExpired ? 'expired' : 'invalid';
      }
    },
  };
}

export type AccessTokens = Awaited<ReturnType<typeof createAccessTokens>>;
