import { Hono } from 'hono';
import { z } from 'zod';
import { HEADER } from '../../client/wire/headers.js';
import { conversationIdSchema } from '../../client/wire/ids.js';
import { sessionInitInputSchema, type Variables, variablesSchema } from '../../client/wire/session.js';
import { SandboxError, toErrorBody, toSandboxError } from '../errors.js';
import { type Assignment, encodeTrace, TRACE_HEADER, type Trace } from '../instance-protocol.js';
import { allowOnly } from '../method-not-allowed.js';
import { acceptVariables, COMMAND_LIMIT_BYTES, type SessionVariables } from '../session-variables.js';
import { type Tool, ToolFailure } from '../tools/define-tool.js';
import { findTool, toolNames } from '../tools/registry.js';
import type { CommandRunner } from '../workspace/run-command.js';
import { createWorkspace, type Workspace } from '../workspace/workspace.js';
import { readBody } from './read-body.js';
import { toLoggedCommand } from './redact.js';

/** What the instance is made of; built once, when the session is assigned. */
export type InstanceDeps = {
  assignment: Assignment;
  variables: SessionVariables;
  commands: CommandRunner;
  /** Environment of commands before the session's variables. */
  baseEnv: Record<string, string>;
  /** Resolves once the next generation would know the values too. */
  rememberVariables(values: Variables, conversationId: string | undefined): Promise<void>;
};

type Env = { Variables: { requestId: string; trace: Trace } };

/** The container's routes, as they are behind the gateway. */
export function createInstanceApp(deps: InstanceDeps): Hono<Env> {
  const app = new Hono<Env>();

  app.use(async (c, next) => {
    c.set('requestId', c.req.header(HEADER.requestId) ?? 'none');
    c.set('trace', {});
    await next();
    c.res.headers.set(TRACE_HEADER, encodeTrace(c.var.trace));
  });

  app.onError((thrown, c) => {
    const error = toSandboxError(thrown);
    if (error.code === 'INTERNAL') c.var.trace.cause = describeCause(error.cause);
    return c.json(toErrorBody(error, c.var.requestId), error.status);
  });

  app.notFound((c) => {
    const message = `There is no route ${c.req.method} ${c.req.path.slice(0, 200)}; the README lists all routes`;
    const error = new SandboxError('NOT_FOUND', message);
    return c.json(toErrorBody(error, c.var.requestId), error.status);
  });

  app.get('/health', (c) => {
    const workspace = workspaceOf(c.req.raw.headers, undefined, deps);
    const { sessionId, isolation, network } = deps.assignment;
    return c.json({ ok: true, status: 'ready', sessionId, workspace: workspace.directory, isolation, network });
  });

  app.post('/api/session/init', async (c) => {
    const body = await readBody(c, strictIf(sessionInitInputSchema, deps), {});
    const workspace = workspaceOf(c.req.raw.headers, body.conversationId, deps);
    c.var.trace.conversationId = workspace.conversationId;
    await workspace.create();
    await setVariables(deps, body.env ?? {}, workspace.conversationId);
    const { sessionId } = deps.assignment;
    const conversationId = workspace.conversationId ?? null;
    const result = { workspace: workspace.directory, sessionId, conversationId, restored: false };
    return c.json({ success: true, workspace: workspace.directory, result });
  });

  app.put('/api/session/env', async (c) => {
    const { conversationId: fromBody, ...values } = await readBody(c, variablesSchema);
    // The type of the extended schema is lost with that of the tool.
    const workspace = workspaceOf(c.req.raw.headers, fromBody as string | undefined, deps);
    c.var.trace.conversationId = workspace.conversationId;
    return c.json({ success: true, result: await setVariables(deps, values, workspace.conversationId) });
  });

  app.post('/api/tools/:tool', async (c) => {
    const tool = findTool(c.req.param('tool'));
    if (!tool) {
      const known = toolNames().join(', ');
      throw new SandboxError(
        'TOOL_NOT_FOUND',
        `There is no tool ${JSON.stringify(c.req.param('tool').slice(0, 64))}; the tools are ${known}`,
      );
    }
    c.var.trace.tool = tool.name;
    const { conversationId: fromBody, ...input } = await readBody(c, strictIf(tool.input.extend(NAMED), deps));
    // The type of the extended schema is lost with that of the tool.
    const workspace = workspaceOf(c.req.raw.headers, fromBody as string | undefined, deps);
    c.var.trace.conversationId = workspace.conversationId;
    return c.json(await callTool(tool, input, workspace, deps, c.var, c.req.raw.signal));
  });

  app.all('/health', allowOnly('GET')).all('/api/session/env', allowOnly('PUT'));
  app.all('/api/session/init', allowOnly('POST')).all('/api/tools/:tool', allowOnly('POST'));
  return app;
}

async function callTool(
  tool: Tool,
  input: z.output<Tool['input']>,
  workspace: Workspace,
  deps: InstanceDeps,
  request: Env['Variables'],
  disconnected: AbortSignal,
): Promise<{ success: true; result: unknown } | { success: false; error: string }> {
  const variables = deps.variables.for(workspace.conversationId);
  if ('command' in input) request.trace.command = toLoggedCommand(String(input.command), variables);
  try {
    const result = await tool.run(input, {
      requestId: request.requestId,
      workspace,
      commands: deps.commands,
      env: { ...deps.baseEnv, ...variables },
      // A client that goes away does not end its command, unless asked for (assumed).
      signal: deps.assignment.cancelOnDisconnect ? disconnected : NEVER,
      trace: (fields) => Object.assign(request.trace, fields),
    });
    return { success: true, result };
  } catch (error) {
    if (!(error instanceof ToolFailure)) throw error;
    request.trace.warning = error.message.slice(0, 500);
    return { success: false, error: error.message };
  }
}

const NEVER = new AbortController().signal;

/** Every body may name the conversation. */
const NAMED = { conversationId: z.string({ error: 'conversationId must be a string' }).optional() };

/** The conversation is named by `X-Conversation-Id`, else `X-Scope-Id`, else by the body. */
function workspaceOf(headers: Headers, fromBody: string | undefined, deps: InstanceDeps): Workspace {
  const named = headers.get(HEADER.conversationId) ?? headers.get(HEADER.scopeId) ?? fromBody;
  if (named === undefined) return createWorkspace(deps.assignment.sessionRoot, undefined);
  const checked = conversationIdSchema.safeParse(named);
  if (!checked.success) {
    throw new SandboxError(
      'INVALID_CONVERSATION_ID',
      `The conversation id ${JSON.stringify(named.slice(0, 150))} ${checked.error.issues[0]?.message}`,
    );
  }
  return createWorkspace(deps.assignment.sessionRoot, checked.data);
}

async function setVariables(deps: InstanceDeps, values: Variables, conversationId: string | undefined) {
  const { accepted, ignored } = acceptVariables(values);
  if (!deps.variables.apply(accepted, conversationId)) {
    throw new SandboxError(
      'INVALID_REQUEST',
      `The variables would not fit: a command takes ${COMMAND_LIMIT_BYTES} bytes of them, and a session holds no more than 8 MiB`,
    );
  }
  await deps.rememberVariables(accepted, conversationId);
  return { set: Object.keys(accepted), ignored };
}

function strictIf<Schema extends z.ZodObject>(schema: Schema, deps: InstanceDeps): Schema {
  // `strict()` changes what is refused, not what is produced.
  return deps.assignment.strictFields ? (schema.strict() as unknown as Schema) : schema;
}

function describeCause(cause: unknown): string {
  return (cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)).slice(0, 2000);
}
