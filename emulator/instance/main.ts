/**
 * Entry of an instance: the process of one session. It is started by the gateway with two arguments,
 * the Unix socket to listen on and its instance id, and lives as long as the channel on descriptor 3.
 */
import { Socket } from 'node:net';
import path from 'node:path';
import { createAdaptorServer } from '@hono/node-server';
import { type Assignment, type FromInstance, toInstanceSchema } from '../instance-protocol.js';
import { createLineChannel } from '../line-channel.js';
import { createSessionVariables } from '../session-variables.js';
import { createFifoPool } from '../workspace/fifo-pool.js';
import { createCommandRunner } from '../workspace/run-command.js';
import { createInstanceApp } from './app.js';

const [socketPath, instanceId] = process.argv.slice(2);
if (socketPath === undefined || instanceId === undefined) {
  throw new Error('An instance is started by the emulator, not by hand');
}

// By default this signal opens a debugger for whoever connects, and any command could send it.
process.on('SIGUSR1', () => {});

const scratchDirectory = path.dirname(socketPath);
const fifos = createFifoPool(scratchDirectory);
const filled = fifos.fill();
const commands = createCommandRunner(fifos, scratchDirectory, instanceId);
// Built by the launcher; every entry is a string.
const baseEnv = { ...process.env } as Record<string, string>;

let answer: ((request: Request) => Response | Promise<Response>) | undefined;
const server = createAdaptorServer({
  fetch: (request) => answer?.(request) ?? new Response(null, { status: 503 }),
  overrideGlobalObjects: false,
  serverOptions: { keepAliveTimeout: 0, requestTimeout: 0 },
});
const channel = createLineChannel(new Socket({ fd: 3 }), Number.POSITIVE_INFINITY, {
  onMessage(message) {
    const parsed = toInstanceSchema.parse(message);
    if (parsed.type === 'assign') assign(parsed);
    else stop();
    return true;
  },
  onViolation: stop,
  onEnd: stop,
});
const tell = (message: FromInstance) => channel.send(message);
server.listen(socketPath, () => tell({ type: 'listening' }));

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
  filled.then(() => tell({ type: 'ready' }), fail);
}

/** Commands that still run are ended first; in namespace mode the rest ends with the namespace. */
function stop(): void {
  commands.terminateAll().finally(() => process.exit(0));
}

function fail(error: unknown): void {
  console.error(error);
  process.exit(1);
}
