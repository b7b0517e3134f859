/**
 * Entry of an instance: the process of one session. It is started by the gateway with two arguments,
 * the Unix socket to listen on and its instance id, and lives as long as the IPC channel.
 */
import path from 'node:path';
import { createAdaptorServer } from '@hono/node-server';
import { type Assignment, type FromInstance, toInstanceSchema } from '../instance-protocol.js';
import { createSessionVariables } from '../session-variables.js';
import { createFifoPool } from '../workspace/fifo-pool.js';
import { createCommandRunner } from '../workspace/run-command.js';
import { createInstanceApp } from './app.js';

const [socketPath, instanceId] = process.argv.slice(2);
if (socketPath === undefined || instanceId === undefined || !process.send) {
  throw new Error('An instance is started by the emulator, not by hand');
}

const scratchDirectory = path.dirname(socketPath);
const fifos = createFifoPool(scratchDirectory);
const commands = createCommandRunner(fifos, scratchDirectory, instanceId);
const baseEnv = commandEnvironment(process.env);

let answer: ((request: Request) => Response | Promise<Response>) | undefined;
const server = createAdaptorServer({
  fetch: (request) => answer?.(request) ?? new Response(null, { status: 503 }),
  serverOptions: { keepAliveTimeout: 0, requestTimeout: 0 },
});
server.listen(socketPath, () => tell({ type: 'listening' }));

process.on('message', (message) => {
  const parsed = toInstanceSchema.parse(message);
  if (parsed.type === 'assign') assign(parsed);
  else stop();
});
process.on('disconnect', stop);

function assign(assignment: Assignment): void {
  const variables = createSessionVariables(assignment.variables);
  const app = createInstanceApp({
    assignment,
    variables,
    commands,
    baseEnv,
    rememberVariables: (values, conversationId) => tell({ type: 'variables', values, conversationId }),
  });
  answer = (request) => app.fetch(request);
  fifos.fill().then(() => tell({ type: 'ready' }), fail);
}

function tell(message: FromInstance): Promise<void> {
  return new Promise((resolve, reject) => {
    process.send?.(message, (error: Error | null) => (error ? reject(error) : resolve()));
  });
}

/** Commands that still run are ended first; in namespace mode the rest ends with the namespace. */
function stop(): void {
  commands.terminateAll().finally(() => process.exit(0));
}

function fail(error: unknown): void {
  console.error(error);
  process.exit(1);
}

function commandEnvironment(env: NodeJS.ProcessEnv): Record<string, string> {
  const { NODE_CHANNEL_FD: _fd, NODE_CHANNEL_SERIALIZATION_MODE: _mode, ...rest } = env;
  return Object.fromEntries(Object.entries(rest).filter((entry): entry is [string, string] => entry[1] !== undefined));
}
