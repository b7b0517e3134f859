import { SandboxAnswerError } from './errors.js';
import { readAnswer, type SandboxInstance } from './sandbox-instance.js';
import { sessionInitAnswerSchema } from './wire/session.js';

/** Credentials of the environment's owner, which the container keeps as variables. */
export type WorkspaceSecret = { envId: string; secretId: string; secretKey: string; token?: string };

const INIT_DEADLINE_MS = 300_000;
const MAKE_DIRECTORY_TIMEOUT_MS = 5_000;
const PLAIN_PATH = /^\/[\w./:@+=-]+$/;

/**
 * Prepares a conversation's workspace, as the design document has it: `session/init` with the
 * credentials, then `mkdir -p` through bash.
 *
 * @param onError Told why there is no workspace; nothing is thrown, since a server then goes on in
 *   its restricted mode.
 * @returns Absolute path of the workspace in the container, or undefined when it could not be prepared.
 */
export async function initSandboxWorkspace(
  sandbox: SandboxInstance,
  secret: WorkspaceSecret,
  conversationId: string,
  onError: (error: unknown) => void = () => {},
): Promise<string | undefined> {
  try {
    const workspace = await initSession(sandbox, secret, conversationId);
    // The path stands in a command, and it came over the network.
    if (!PLAIN_PATH.test(workspace))
      throw new SandboxAnswerError(`The sandbox named an unusable workspace ${JSON.stringify(workspace)}`, 200);
    const made = await sandbox.bash(`mkdir -p "${workspace}"`, { timeoutMs: MAKE_DIRECTORY_TIMEOUT_MS });
    if (made.exitCode !== 0)
      throw new SandboxAnswerError(`The workspace could not be made: ${made.output.trim()}`, 200);
    return workspace;
  } catch (error) {
    onError(error);
    return undefined;
  }
}

/**
 * The container's own word counts for where the workspace is: for a session `envId:userId` it is not
 * below `/tmp/workspace/<envId>`.
 */
async function initSession(sandbox: SandboxInstance, secret: WorkspaceSecret, conversationId: string): Promise<string> {
  const response = await sandbox.request('/api/session/init', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Conversation-Id': conversationId },
    body: JSON.stringify({
      env: {
        CLOUDBASE_ENV_ID: secret.envId,
        TENCENTCLOUD_SECRETID: secret.secretId,
        TENCENTCLOUD_SECRETKEY: secret.secretKey,
        ...(secret.token === undefined ? {} : { TENCENTCLOUD_SESSIONTOKEN: secret.token }),
      },
    }),
    signal: AbortSignal.timeout(INIT_DEADLINE_MS),
  });
  return (await readAnswer(response, sessionInitAnswerSchema)).workspace;
}
