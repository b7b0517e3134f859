import { bash } from './bash.js';
import type { Tool } from './define-tool.js';

/** Every tool of the container, in the one list that all ways to call them read. */
const TOOLS: readonly Tool[] = [bash];

export function findTool(name: string): Tool | undefined {
  return TOOLS.find((tool) => tool.name === name);
}

export function toolNames(): string[] {
  return TOOLS.map((tool) => tool.name);
}
