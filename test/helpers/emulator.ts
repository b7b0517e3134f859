import { randomBytes } from 'node:crypto';
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, onTestFinished } from 'vitest';
import type { BashResult } from '../../client/wire/bash.js';
// The build, not the sources: an instance is a bundled file.
import { createEmulator, type Emulator, type EmulatorOptions } from '../../dist/emulator/index.js';

export type Mode = 'namespace' | 'none';

/** A directory that is gone after the test file. */
async function makeTempDir(): Promise<string> {
  return realpath(await mkdtemp(path.join(tmpdir(), 'scf-test-')));
}

/** An id that no other test uses, so that files of mode none do not meet either. */
export function randomId(prefix = 'env'): string {
  return `${prefix}-${randomBytes(6).toString('hex')}`;
}

/** True when this machine can isolate instances; found out once, by the emulator's own probe. */
export const namespacesHold: boolean = await (async () => {
  const emulator = await createEmulator({ port: 0, ephemeral: true, log: 'silent' });
  await emulator.close();
  if (emulator.isolation === 'none') console.error('Namespace tests are skipped: install bubblewrap to run them');
  return emulator.isolation === 'namespace';
})();

const MODES: Mode[] = namespacesHold ? ['namespace', 'none'] : ['none'];

/** Options that make an emulator for a test: free port, nothing kept, no log, the mode asked for. */
export function optionsFor(mode: Mode): EmulatorOptions {
  return { port: 0, ephemeral: true, log: 'silent', isolation: mode === 'none' ? 'none' : 'require' };
}

/** Describes behaviour that is the same in every mode; each mode has one emulator for all its tests. */
export function describeModes(
  title: string,
  body: (emulator: () => Emulator, mode: Mode) => void,
  options: EmulatorOptions = {},
): void {
  describe.each(MODES)(`${title} [%s]`, (mode) => body(useEmulator(mode, options), mode));
}

/** One emulator for the tests of the surrounding `describe`. */
export function useEmulator(mode: Mode, options: EmulatorOptions = {}): () => Emulator {
  let emulator: Emulator | undefined;
  beforeAll(async () => {
    emulator = await createEmulator({ ...optionsFor(mode), ...options });
  });
  afterAll(() => emulator?.close());
  return () => {
    if (!emulator) throw new Error('the emulator is not started yet');
    return emulator;
  };
}

/** Removes a directory after the tests of the surrounding `describe`. */
export function useTempDir(): () => string {
  let directory: string | undefined;
  beforeAll(async () => {
    directory = await makeTempDir();
  });
  afterAll(() => directory && rm(directory, { recursive: true, force: true }));
  return () => {
    if (!directory) throw new Error('the directory is not made yet');
    return directory;
  };
}

export type Caller = {
  sessionId: string;
  conversationId: string | undefined;
  /** Any request, with the conversation's headers. */
  request(path: string, init?: RequestInit): Promise<Response>;
  /** A JSON request; resolves with status and parsed body. */
  json(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<{ status: number; body: unknown; headers: Headers }>;
  /** Runs a command and expects the tool to have answered. */
  bash(command: string, timeout?: number): Promise<BashResult>;
  init(env?: Record<string, string>): Promise<{ workspace: string }>;
};

/** Speaks to an emulator as one conversation does, in plain HTTP. */
export function callerFor(
  emulator: Pick<Emulator, 'url'>,
  sessionId: string,
  conversationId?: string,
  prefix = '',
): Caller {
  const identity = {
    'X-Cloudbase-Session-Id': sessionId,
    ...(conversationId === undefined ? {} : { 'X-Conversation-Id': conversationId }),
  };
  const request = (path: string, init: RequestInit = {}) =>
    fetch(`${emulator.url}${prefix}${path}`, {
      ...init,
      headers: { ...identity, ...(init.headers as Record<string, string> | undefined) },
    });

  const json: Caller['json'] = async (method, path, body, headers = {}) => {
    const response = await request(path, {
      method,
      headers: { 'Content-Type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text), headers: response.headers };
  };

  return {
    sessionId,
    conversationId,
    request,
    json,
    async bash(command, timeout) {
      const { status, body } = await json('POST', '/api/tools/bash', { command, timeout });
      const answer = body as { success: boolean; result?: BashResult };
      if (status !== 200 || !answer.success || !answer.result)
        throw new Error(`bash was not answered: ${status} ${JSON.stringify(body)}`);
      return answer.result;
    },
    async init(env) {
      const { status, body } = await json('POST', '/api/session/init', { env });
      if (status !== 200) throw new Error(`session/init was not answered: ${status} ${JSON.stringify(body)}`);
      return body as { workspace: string };
    },
  };
}

/** A session as `/_emulator/state` describes it. */
export type SessionState = {
  sessionId: string;
  state: string;
  generations: number;
  instance: { id: string; pid: number } | null;
  /** Session root on the host. */
  hostPath: string;
};

export async function stateOf(emulator: Pick<Emulator, 'url'>, sessionId: string): Promise<SessionState> {
  const { sessions } = (await (await fetch(`${emulator.url}/_emulator/state`)).json()) as { sessions: SessionState[] };
  const found = sessions.find((session) => session.sessionId === sessionId);
  if (!found) throw new Error(`the emulator knows no session ${sessionId}`);
  return found;
}

/**
 * At the end of a test, removes workspaces that mode none leaves where they are: of an emulator that was
 * killed, or that is not ephemeral.
 */
export function removeWorkspaces(sessionIds: string[]): void {
  onTestFinished(async () => {
    for (const id of sessionIds) await rm(`/tmp/workspace/${id}`, { recursive: true, force: true });
  });
}

/** Polls until `condition` holds; fails with `what` when it does not within the deadline. */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  deadlineMs = 20_000,
): Promise<void> {
  const until = performance.now() + deadlineMs;
  while (!(await condition())) {
    if (performance.now() > until) throw new Error(`not so within ${deadlineMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
