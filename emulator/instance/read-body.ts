import type { Context } from 'hono';
import type { z } from 'zod';
import { SandboxError } from '../errors.js';

/**
 * Reads a JSON body and checks it. Unknown fields are dropped, since clients spread everything that a
 * model produced into the body; `strictFields` refuses them instead.
 *
 * @param fallback Taken when the body is empty; without it an empty body is an error.
 */
export async function readBody<Schema extends z.ZodType>(
  c: Context,
  schema: Schema,
  fallback?: unknown,
): Promise<z.output<Schema>> {
  const contentType = c.req.header('content-type');
  if (contentType !== undefined && !isJson(contentType)) {
    throw new SandboxError(
      'UNSUPPORTED_MEDIA_TYPE',
      `${c.req.path} takes Content-Type: application/json, not ${JSON.stringify(contentType.slice(0, 100))}`,
    );
  }
  const bytes = await c.req.arrayBuffer();
  const value = bytes.byteLength === 0 && fallback !== undefined ? fallback : parseJson(bytes);
  const checked = schema.safeParse(value);
  if (!checked.success) throw new SandboxError('INVALID_REQUEST', describeIssues(checked.error));
  return checked.data;
}

/** One sentence that names each field and what is wrong with it. */
function describeIssues(error: z.ZodError): string {
  const sentences = error.issues.slice(0, 5).map((issue) => {
    const where = issue.path.map(String).join('.').slice(0, 100);
    // What is wrong with the name of a record's entry stands one level down.
    const message = (issue.code === 'invalid_key' && issue.issues[0]?.message) || issue.message;
    return where === '' || message.startsWith(where) ? message : `${where}: ${message}`;
  });
  return `Invalid request: ${sentences.join('; ')}`;
}

function isJson(contentType: string): boolean {
  return /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(contentType.trim());
}

function parseJson(bytes: ArrayBuffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: false }).decode(bytes));
  } catch (error) {
    const reason =
      bytes.byteLength === 0 ? 'it is empty' : error instanceof SyntaxError ? error.message : 'it is not UTF-8';
    throw new SandboxError('MALFORMED_JSON', `The body is not valid JSON: ${reason}`);
  }
}
