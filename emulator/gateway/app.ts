import { setTimeout as delay } from 'node:timers/promises';
import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { type Context, Hono } from 'hono';
import { HEADER } from '../../client/wire/headers.js';
import { DEFAULT_FUNCTION_NAME, functionNameSchema, sessionIdSchema } from '../../client/wire/ids.js';
import type { Config } from '../config.js';
import { SandboxError, toErrorBody, toSandboxError } from '../errors.js';
import type { Events } from '../events.js';
import type { Log } from '../log.js';
import type { AccessTokens } from './access-tokens.js';
import { checkBearer } from './auth.js';
import { type ForwardRequest, forward, gatewayHeaders, SERVER } from './container-proxy.js';
import { guardHost, guardOrigin } from './guard.js';
import { refuseInsideCallers } from './inside-callers.js';
import type { KeyPair } from './key-pair.js';
import { type GatewayEnv, recordRequests } from './request-record.js';
import type { SessionKey } from './session-key.js';
import type { SessionRegistry } from './session-registry.js';
import { createTokenRoute } from './token-route.js';

export type GatewayDeps = {
  config: Config;
  log: Log;
  events: Events;
  tokens: AccessTokens;
  /** The key pair that the token endpoint asks for; undefined accepts any. */
  keyPair: KeyPair | undefined;
  registry: SessionRegistry;
  /** Routes below `/_emulator`. */
  control: Hono<{ Bindings: HttpBindings }>;
  /** Answer to `GET /health` without a session. */
  health(): Record<string, unknown>;
};

const FUNCTION_PREFIX = '/v1/functions/:functionName';

/**
 * The public server. A request passes: record, caller, Host, Origin, then either a route of the gateway's own
 * or auth and the container of its session, at the root and below `/v1/functions/:functionName`.
 */
export function createGatewayApp(deps: GatewayDeps): Hono<GatewayEnv> {
  const app = new Hono<GatewayEnv>();
  app.onError((thrown, c) => answerError(toSandboxError(thrown), c));
  app.notFound((c) =>
    answerError(new SandboxError('NOT_FOUND', `There is no route ${c.req.method} ${c.req.path.slice(0, 200)}`), c),
  );

  app.use(recordRequests(deps.log, deps.events), refuseInsideCallers(deps.registry.hasInstances));
  app.use(guardHost(deps.config), guardOrigin(deps.config));
  app.route('/_emulator', deps.control);
  app.all('/_emulator/*', (c) => c.notFound());
  app.route('/', createTokenRoute(deps.tokens, deps.keyPair));

  const ownHealth = (c: Context<GatewayEnv>, next: () => Promise<void>) =>
    c.req.header(HEADER.sessionId) === undefined ? c.json(deps.health()) : next();
  app.get('/health', ownHealth).get(`${FUNCTION_PREFIX}/health`, ownHealth);

  const auth = checkBearer(deps.config, deps.tokens, deps.log);
  app.all(`${FUNCTION_PREFIX}/*`, auth, (c) => toContainer(c, c.req.param('functionName'), deps));
  app.all('/*', auth, (c) => toContainer(c, undefined, deps));
  return app;
}

async function toContainer(
  c: Context<GatewayEnv>,
  functionName: string | undefined,
  deps: GatewayDeps,
): Promise<Response> {
  const key = sessionKeyOf(c, functionName);
  const { record } = c.var;
  Object.assign(record, key);
  const request = { ...c.env, path: containerPath(c, functionName), sessionId: key.sessionId, record };
  const isHealth = /^\/health(?:\?|$)/.test(request.path);
  await (isHealth ? withPatience(deliver(key, request, deps)) : deliver(key, request, deps));
  if (record.conversationId !== undefined) deps.registry.noteConversation(key, record.conversationId);
  return RESPONSE_ALREADY_SENT;
}

async function deliver(key: SessionKey, request: ForwardRequest, deps: GatewayDeps): Promise<void> {
  for (let attempt = 1; attempt <= 3; attempt++) {
    if (await forward(request, await deps.registry.acquire(key))) return;
  }
  throw new SandboxError('INSTANCE_CRASHED', 'The sandbox ended again and again before it took this request');
}

/** How long `/health` waits for a boot or for a sandbox that hangs; the production client gives up after 4 s. */
const HEALTH_PATIENCE_MS = 2_000;

async function withPatience(delivered: Promise<void>): Promise<void> {
  const impatient = delay(HEALTH_PATIENCE_MS, 'late', { ref: false });
  if ((await Promise.race([delivered, impatient])) !== 'late') return;
  delivered.catch(() => {}); // nobody waits for it any more
  throw new SandboxError('SESSION_STARTING', 'The sandbox is still starting, or hangs; ask again in a moment');
}

/**
 * Path and query of the container's route. They come from the URL that was routed by, since the request
 * line may hold another spelling of it: absolute, with dot segments, or with an escaped function name.
 */
function containerPath(c: Context<GatewayEnv>, functionName: string | undefined): string {
  const { pathname, search } = new URL(c.req.url);
  const path = functionName === undefined ? pathname : pathname.replace(/^\/v1\/functions\/[^/]+/, '');
  return `${path || '/'}${search}`;
}

function sessionKeyOf(c: Context<GatewayEnv>, functionName = DEFAULT_FUNCTION_NAME): SessionKey {
  const checkedName = functionNameSchema.safeParse(functionName);
  if (!checkedName.success) {
    throw new SandboxError(
      'INVALID_FUNCTION_NAME',
      `The function name ${JSON.stringify(functionName.slice(0, 100))} ${checkedName.error.issues[0]?.message}`,
    );
  }
  const sessionId = c.req.header(HEADER.sessionId);
  if (sessionId === undefined) {
    throw new SandboxError(
      'MISSING_SESSION_ID',
      'Send the header X-Cloudbase-Session-Id with the id of the environment',
    );
  }
  const checked = sessionIdSchema.safeParse(sessionId);
  if (!checked.success) {
    throw new SandboxError(
      'INVALID_SESSION_ID',
      `The session id ${JSON.stringify(sessionId.slice(0, 150))} ${checked.error.issues[0]?.message}`,
    );
  }
  return { functionName: checkedName.data, sessionId: checked.data };
}

/** The one place where the gateway writes an error. */
function answerError(error: SandboxError, c: Context<GatewayEnv>): Response {
  const { record } = c.var;
  record.code = error.code;
  if (error.code === 'INTERNAL')
    record.cause = error.cause instanceof Error ? (error.cause.stack ?? error.cause.message) : String(error.cause);
  // Nothing can be said any more once headers are out or the client is gone.
  if (c.env.outgoing.headersSent || c.env.outgoing.destroyed) return RESPONSE_ALREADY_SENT;
  c.header('server', SERVER);
  // Without a session the real gateway names the request here. Evidence: recorded (field report).
  c.header('x-cloudbase-session-id', record.sessionId ?? record.requestId);
  if (error.code === 'INSTANCE_START_FAILED' || error.code === 'INSTANCE_CRASHED') {
    const headers = gatewayHeaders(record.requestId, record.sessionId ?? record.requestId, String(error.status), 0);
    for (const [name, value] of Object.entries(headers)) c.header(name, value);
  }
  if (error.code === 'INSTANCE_START_FAILED') {
    // The real gateway was seen to answer a failed boot with no body at all.
    c.header('x-emulator-error', error.code);
    return c.body(null, error.status);
  }
  if (error.code === 'REQUEST_TOO_LARGE') c.header('Connection', 'close');
  return c.json(toErrorBody(error, record.requestId), error.status);
}
