import type { MiddlewareHandler } from 'hono';
import { type Config, isLoopback } from '../config.js';
import { SandboxError } from '../errors.js';
import type { GatewayEnv } from './request-record.js';

/** Hosts of the real service, for clients that were sent here by their network settings. Evidence: client-seen. */
const PRODUCTION_HOSTS = [
  /^[\w-]+(?:\.[\w-]+)?\.api\.tcloudbasegateway\.com$/,
  /^[\w-]+(?:\.[\w-]+)*\.(?:service|app)\.tcloudbase\.com$/,
];
const LOCAL_HOSTS = new Set(['localhost', '127.0.0.1', '[::1]']);

/**
 * Refuses requests that were not meant for the emulator: a foreign `Host` (DNS rebinding) and a
 * foreign `Origin` (a web page in the developer's browser). This program runs shell commands for
 * whoever reaches it, so the check stands before everything else.
 */
export function guardHost(config: Config): MiddlewareHandler {
  const own = new Set([config.host.toLowerCase(), ...config.allowedHost.map((host) => host.toLowerCase())]);
  return async (c, next) => {
    const host = c.req.header('host') ?? '';
    const name = host.replace(/:\d+$/, '').toLowerCase();
    const allowed = LOCAL_HOSTS.has(name) || own.has(name) || PRODUCTION_HOSTS.some((pattern) => pattern.test(name));
    if (!allowed) {
      throw new SandboxError(
        'FOREIGN_HOST',
        `The Host ${JSON.stringify(host.slice(0, 100))} is not the emulator's; allow it with --allowed-host`,
      );
    }
    await next();
  };
}

/** Refuses foreign web pages, and lets those of `--allowed-origin` read the answers. */
export function guardOrigin(config: Config): MiddlewareHandler<GatewayEnv> {
  const allowed = new Set(config.allowedOrigin.map((origin) => new URL(origin).origin));
  return async (c, next) => {
    const origin = c.req.header('origin');
    if (origin === undefined || isOwnOrigin(origin, c.req.header('host') ?? '')) return next();
    if (!allowed.has(origin)) {
      throw new SandboxError(
        'FOREIGN_ORIGIN',
        `The Origin ${JSON.stringify(origin.slice(0, 100))} may not call the emulator; allow it with --allowed-origin`,
      );
    }
    // Set on the raw answer, since most answers are piped and never become a Response.
    c.env.outgoing.setHeader('Access-Control-Allow-Origin', origin);
    c.env.outgoing.setHeader('Access-Control-Expose-Headers', '*');
    c.env.outgoing.setHeader('Vary', 'Origin');
    if (c.req.method !== 'OPTIONS' || c.req.header('access-control-request-method') === undefined) return next();
    return c.body(null, 204, {
      'Access-Control-Allow-Methods': 'GET, POST, PUT, DELETE',
      'Access-Control-Allow-Headers': c.req.header('access-control-request-headers') ?? '',
    });
  };
}

/** A page that the emulator itself served, on the same name and port. */
function isOwnOrigin(origin: string, host: string): boolean {
  if (!URL.canParse(origin)) return false;
  const url = new URL(origin);
  return (
    url.protocol === 'http:' &&
    url.host === host.toLowerCase() &&
    (LOCAL_HOSTS.has(url.hostname) || isLoopback(url.hostname))
  );
}
