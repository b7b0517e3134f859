import { DEFAULT_FUNCTION_NAME } from './wire/ids.js';

/** The real service: one function of one CloudBase environment, reached with a key pair. */
export type ScfTarget = {
  kind: 'scf';
  /** Environment that owns the function; names the gateway's host. */
  envId: string;
  functionName: string;
  secretId: string;
  secretKey: string;
  /** Session token of a temporary key pair. */
  token?: string;
};

/** A local emulator. The key pair is needed only where it asks for one. */
export type EmulatorTarget = {
  kind: 'emulator';
  /** Base URL, such as `http://127.0.0.1:9000`. */
  url: string;
  functionName?: string;
  secretId?: string;
  secretKey?: string;
};

export type Target = EmulatorTarget | ScfTarget;

/**
 * Reads the target from environment variables: `SCF_SANDBOX_URL` names an emulator; without it
 * `TCB_ENV_ID`, `TCB_SECRET_ID`, `TCB_SECRET_KEY` (and `TCB_TOKEN`) name the real service.
 * `SCF_SANDBOX_FUNCTION` is the function's name in both cases.
 *
 * @throws Error that lists the variables which are missing.
 */
export function targetFromEnvironment(env: Record<string, string | undefined> = process.env): Target {
  const functionName = env.SCF_SANDBOX_FUNCTION || DEFAULT_FUNCTION_NAME;
  const { TCB_ENV_ID: envId, TCB_SECRET_ID: secretId, TCB_SECRET_KEY: secretKey, TCB_TOKEN: token } = env;
  if (env.SCF_SANDBOX_URL) return { kind: 'emulator', url: env.SCF_SANDBOX_URL, functionName, secretId, secretKey };
  if (!envId || !secretId || !secretKey) {
    throw new Error(
      'No target: set SCF_SANDBOX_URL for an emulator, or TCB_ENV_ID, TCB_SECRET_ID and TCB_SECRET_KEY for the real service',
    );
  }
  return { kind: 'scf', envId, functionName, secretId, secretKey, ...(token ? { token } : {}) };
}

/** Where the container's routes and the token endpoint of a target are. */
export function resolveTarget(target: Target): { baseUrl: string; tokenUrl: string } {
  const gateway =
    target.kind === 'scf' ? `https://${target.envId}.api.tcloudbasegateway.com` : target.url.replace(/\/+$/, '');
  const functionName = target.functionName || DEFAULT_FUNCTION_NAME;
  return {
    baseUrl: `${gateway}/v1/functions/${encodeURIComponent(functionName)}`,
    tokenUrl: `${gateway}/auth/v1/token/clientCredential`,
  };
}
