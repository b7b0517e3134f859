import type { z } from 'zod';
import type { Trace } from '../instance-protocol.js';
import type { CommandRunner } from '../workspace/run-command.js';
import type { Workspace } from '../workspace/workspace.js';

/** What a tool may know about the call that it serves. */
export type ToolContext = {
  requestId: string;
  workspace: Workspace;
  commands: CommandRunner;
  /** Environment of every program that the tool starts. */
  env: Record<string, string>;
  /** Aborted when the caller cancelled. */
  signal: AbortSignal;
  /** Adds to the request's one log line. */
  trace(fields: Trace): void;
};

export type Tool<Input extends z.ZodObject = z.ZodObject, Output extends z.ZodType = z.ZodType> = {
  name: string;
  description: string;
  input: Input;
  output: Output;
  /** Answers with the result; throws a `ToolFailure` when the tool could not do its work. */
  run(input: z.output<Input>, context: ToolContext): Promise<z.output<Output>>;
};

/**
 * A named operation of the container.
 */
export function defineTool<Input extends z.ZodObject, Output extends z.ZodType>(
  tool: Tool<Input, Output>,
): Tool<Input, Output> {
  return tool;
}

/**
 * The tool could not do its work. The answer is HTTP 200 with `success:false` and this message,
 * because clients take any other status for a broken gateway. Evidence: client-seen.
 */
export class ToolFailure extends Error {
  override name = 'ToolFailure';
}
