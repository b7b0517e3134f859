export { SandboxAnswerError, SandboxConnectionError } from './errors.js';
export { initSandboxWorkspace, type WorkspaceSecret } from './init-sandbox-workspace.js';
export { SandboxInstance, type SandboxOptions } from './sandbox-instance.js';
export { type EmulatorTarget, type ScfTarget, type Target, targetFromEnvironment } from './target.js';
export type { RequestInput } from './transport.js';
export type { BashResult } from './wire/bash.js';
