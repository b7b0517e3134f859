import { z } from 'zod';
import { SandboxAnswerError } from './errors.js';
import { resolveTarget, type Target } from './target.js';
import { readJson, send } from './transport.js';

/** Evidence: client-seen. */
const tokenAnswerSchema = z.looseObject({ access_token: z.string().min(1), expires_in: z.number().optional() });
const codeSchema = z.looseObject({ code: z.string() });

/** What the production client assumes when the answer names no lifetime. Evidence: client-seen. */
const DEFAULT_CACHE_MS = 3_600_000;

/**
 * Fetches access tokens for a target and keeps each for half its lifetime. Without a key pair there is
 * no token, which an emulator accepts by default.
 */
export function createAccessTokenSource(target: Target) {
  let cached: { token: string; until: number } | undefined;
  let fetching: Promise<string> | undefined;

  async function fetchToken(pair: string): Promise<string> {
    const response = await send(resolveTarget(target).tokenUrl, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Basic ${Buffer.from(pair).toString('base64')}` },
      body: '{"grant_type":"client_credentials"}',
      signal: AbortSignal.timeout(30_000),
    });
    const body = await readJson(response);
    const answer = tokenAnswerSchema.safeParse(body);
    if (!answer.success)
      throw new SandboxAnswerError(
        'The token endpoint answered without an access token; check SecretId and SecretKey',
        response.status,
        codeSchema.safeParse(body).data?.code,
        response.headers.get('x-request-id') ?? undefined,
      );
    const { access_token: token, expires_in: seconds } = answer.data;
    cached = { token, until: Date.now() + (seconds ? (seconds * 1000) / 2 : DEFAULT_CACHE_MS) };
    return token;
  }

  return async (): Promise<string | undefined> => {
    const { secretId, secretKey } = target;
    if (!secretId || !secretKey) return undefined;
    if (cached && cached.until > Date.now()) return cached.token;
    fetching ??= fetchToken(`${secretId}:${secretKey}`).finally(() => {
      fetching = undefined;
    });
    return fetching;
  };
}
