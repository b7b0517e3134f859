import { expect } from 'vitest';
import { randomId } from './emulator.js';

const TOKEN_PATH = '/auth/v1/token/clientCredential';

export const basic = (pair: string) => `Basic ${Buffer.from(pair).toString('base64')}`;

/** The session that `callWith` calls. */
export const AUTH_SESSION = randomId('auth');

export type Answer = { status: number; body: unknown };

/** Asks the token endpoint; without `authorization` the header is left out. */
export async function askForToken(
  url: string,
  authorization?: string,
  body = '{"grant_type":"client_credentials"}',
): Promise<Answer> {
  const headers = { 'Content-Type': 'application/json', ...(authorization ? { Authorization: authorization } : {}) };
  const response = await fetch(url + TOKEN_PATH, { method: 'POST', headers, body });
  return { status: response.status, body: await response.json() };
}

/** A token for a key pair; fails when it is refused. */
export async function fetchToken(url: string, pair = 'id:key'): Promise<string> {
  const { status, body } = await askForToken(url, basic(pair));
  const token = (body as { access_token?: string }).access_token;
  if (token === undefined) throw new Error(`no token: ${status} ${JSON.stringify(body)}`);
  return token;
}

/** Calls the health of a session, which needs a token under strict auth. */
export async function callWith(url: string, authorization?: string, prefix = ''): Promise<Answer> {
  const headers = {
    'X-Cloudbase-Session-Id': AUTH_SESSION,
    ...(authorization ? { Authorization: authorization } : {}),
  };
  const response = await fetch(`${url}${prefix}/health`, { headers });
  return { status: response.status, body: await response.json() };
}

/** The whole answer of a refusal. */
export function refusal(status: number, code: string, message: string): Answer {
  return {
    status,
    body: { success: false, error: message, code, message, requestId: expect.stringMatching(/^[0-9a-f-]{36}$/) },
  };
}
