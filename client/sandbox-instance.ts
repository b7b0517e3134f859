import { z } from 'zod';
import { createAccessTokenSource } from './access-token.js';
import { SandboxAnswerError } from './errors.js';
import { resolveTarget, type Target, targetFromEnvironment } from './target.js';
import { type RequestInput, readJson, send } from './transport.js';
import { BASH_DEFAULT_TIMEOUT_MS, type BashInput, type BashResult, bashResultSchema } from './wire/bash.js';
import { toolAnswerSchema } from './wire/envelope.js';

export type SandboxOptions = {
  /** Read from the environment when not given. */
  target?: Target;
  /** The environment; its conversations share one container. */
  envId: string;
  /** Without one, calls work in the session root, as before the redesign. */
  conversationId?: string;
  /** Value of `X-Cloudbase-Session-Id` where it is not the `envId`: `envId:userId` isolates by user. */
  sessionId?: string;
};

/** How much longer than a command its request may take. */
const ANSWER_SLACK_MS = 5_000;

/** One conversation's view of the container of its environment, local or real. */
export class SandboxInstance {
  /** Prefix of the container's routes, without a slash at the end. */
  readonly baseUrl: string;
  readonly sessionId: string;
  readonly conversationId: string | undefined;
  readonly #token: () => Promise<string | undefined>;

  constructor({ target = targetFromEnvironment(), envId, conversationId, sessionId = envId }: SandboxOptions) {
    this.baseUrl = resolveTarget(target).baseUrl;
    this.sessionId = sessionId;
    this.conversationId = conversationId;
    this.#token = createAccessTokenSource(target);
  }

  /** The three headers that every call carries. Evidence: client-seen. */
  static buildAuthHeaders(accessToken: string, sessionId: string): Record<string, string> {
    return { Authorization: `Bearer ${accessToken}`, 'X-Cloudbase-Session-Id': sessionId, 'X-Tcb-Webfn': 'true' };
  }

  /** The headers of this conversation, with a token that is valid now. */
  async getAuthHeaders(): Promise<Record<string, string>> {
    const token = await this.#token();
    const { Authorization, ...unauthorized } = SandboxInstance.buildAuthHeaders(token ?? '', this.sessionId);
    return {
      ...unauthorized,
      ...(token === undefined ? {} : { Authorization }),
      ...(this.conversationId === undefined ? {} : { 'X-Conversation-Id': this.conversationId }),
    };
  }

  /**
   * Calls any route of the container.
   *
   * @param path Begins with a slash.
   * @returns The answer, whatever its status.
   * @throws SandboxConnectionError when there is none.
   */
  async request(path: string, input: RequestInput = {}): Promise<Response> {
    return send(this.baseUrl + path, { ...input, headers: { ...(await this.getAuthHeaders()), ...input.headers } });
  }

  /**
   * Runs a command in the conversation's directory. An exit code other than 0 is a result, not an error.
   *
   * @throws SandboxAnswerError when the service or the tool refused; SandboxConnectionError without an answer.
   */
  async bash(
    command: string,
    { timeoutMs, signal }: { timeoutMs?: number; signal?: AbortSignal } = {},
  ): Promise<BashResult> {
    const input: BashInput = timeoutMs === undefined ? { command } : { command, timeout: timeoutMs };
    const limit = AbortSignal.timeout((timeoutMs ?? BASH_DEFAULT_TIMEOUT_MS) + ANSWER_SLACK_MS);
    return this.#callTool('bash', input, bashResultSchema, signal ? AbortSignal.any([signal, limit]) : limit);
  }

  async #callTool<Result extends z.ZodType>(
    tool: string,
    input: unknown,
    result: Result,
    signal: AbortSignal,
  ): Promise<z.output<Result>> {
    const response = await this.request(`/api/tools/${tool}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(input),
      signal,
    });
    const answer = await readAnswer(response, toolAnswerSchema);
    if (!answer.success)
      throw new SandboxAnswerError(answer.error, response.status, undefined, requestIdOf(response), false);
    return parseAnswer(response, answer.result, result);
  }
}

/**
 * Reads an answer by its schema.
 *
 * @throws SandboxAnswerError for a status other than 2xx and for a body that does not fit;
 * SandboxConnectionError for one that breaks off.
 */
export async function readAnswer<Schema extends z.ZodType>(
  response: Response,
  schema: Schema,
): Promise<z.output<Schema>> {
  const body = await readJson(response);
  if (!response.ok) throw toAnswerError(response, body);
  return parseAnswer(response, body, schema);
}

function parseAnswer<Schema extends z.ZodType>(response: Response, value: unknown, schema: Schema): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const where = issue?.path.join('.') || 'the body';
  throw new SandboxAnswerError(
    `The sandbox answered in an unknown form: ${where}: ${issue?.message}`,
    response.status,
    undefined,
    requestIdOf(response),
    false,
  );
}

const errorFieldsSchema = z.object({ code: z.string(), message: z.string(), error: z.string() }).partial();

/** Reads the container's envelope as well as the gateway's. */
function toAnswerError(response: Response, body: unknown): SandboxAnswerError {
  const { code, message, error } = errorFieldsSchema.safeParse(body).data ?? {};
  const text = message || error || `The sandbox answered ${response.status} without saying why`;
  return new SandboxAnswerError(text, response.status, code, requestIdOf(response));
}

function requestIdOf(response: Response): string | undefined {
  return response.headers.get('x-request-id') ?? undefined;
}
