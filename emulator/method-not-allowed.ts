import type { Context } from 'hono';
import { SandboxError } from './errors.js';

/** A handler that stands behind the one of `method` and refuses the other methods, as HTTP wants it: with `Allow`. */
export function allowOnly(method: string): (c: Context) => never {
  return (c) => {
    c.header('Allow', method);
    throw new SandboxError('METHOD_NOT_ALLOWED', `${c.req.path} takes ${method}, not ${c.req.method}`);
  };
}
