import {
  BASH_DEFAULT_TIMEOUT_MS,
  BASH_OUTPUT_LIMIT_BYTES,
  bashInputSchema,
  bashResultSchema,
} from '../../client/wire/bash.js';
import { systemErrorCode } from '../errors.js';
import type { CommandOutcome } from '../workspace/run-command.js';
import { defineTool, type ToolContext, ToolFailure } from './define-tool.js';

export const bash = defineTool({
  name: 'bash',
  description:
    'Runs a command in a fresh bash in the conversation directory and returns its exit code with standard output and standard error as one text.',
  input: bashInputSchema,
  output: bashResultSchema,

  async run({ command, timeout }, context) {
    const cwd = await context.workspace.commandDirectory();
    if (cwd.warning !== undefined) context.trace({ warning: cwd.warning });
    const outcome = await runOrFail(context, {
      command,
      cwd: cwd.path,
      timeoutMs: timeout ?? BASH_DEFAULT_TIMEOUT_MS,
    });
    const { exitCode, timedOut, background } = outcome;
    context.trace({ exitCode, timedOut, ...(background ? { background } : {}) });
    return {
      mode: 'real' as const,
      exitCode,
      output: outcome.output,
      truncated: outcome.truncated,
      timedOut,
      simulated: false as const,
      background,
      omittedBytes: outcome.omittedBytes,
    };
  },
});

async function runOrFail(
  context: ToolContext,
  request: { command: string; cwd: string; timeoutMs: number },
): Promise<CommandOutcome> {
  try {
    return await context.commands.run({
      ...request,
      env: context.env,
      outputLimitBytes: BASH_OUTPUT_LIMIT_BYTES,
      signal: context.signal,
    });
  } catch (error) {
    throw new ToolFailure(`bash could not be started: ${explainStartFailure(error)}`, { cause: error });
  }
}

function explainStartFailure(error: unknown): string {
  switch (systemErrorCode(error)) {
    case 'EAGAIN':
      return 'the system allows no more processes; end some and try again';
    case 'EMFILE':
    case 'ENFILE':
      return 'too many files are open; try again with fewer calls at once';
    case 'E2BIG':
      return 'the variables of this session are too large together; set fewer with PUT /api/session/env';
    case 'ENOSPC':
      return 'no space is left on the disk that holds the workspace';
    case 'ENOENT':
      return '/bin/bash or the working directory does not exist';
    default:
      return error instanceof Error ? error.message : String(error);
  }
}
