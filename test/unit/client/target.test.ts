import { describe, expect, it } from 'vitest';
import { resolveTarget, targetFromEnvironment } from '../../../client/target.js';

const SERVICE = { TCB_ENV_ID: 'env-1', TCB_SECRET_ID: 'id', TCB_SECRET_KEY: 'key' };

describe('the target from the environment', () => {
  it('is the emulator that SCF_SANDBOX_URL names, also beside the names of the real service', () => {
    expect(targetFromEnvironment({ SCF_SANDBOX_URL: 'http://127.0.0.1:9000' })).toEqual({
      kind: 'emulator',
      url: 'http://127.0.0.1:9000',
      functionName: 'sandbox-shared',
      secretId: undefined,
      secretKey: undefined,
    });
    expect(targetFromEnvironment({ ...SERVICE, SCF_SANDBOX_URL: 'http://localhost:1' })).toEqual({
      kind: 'emulator',
      url: 'http://localhost:1',
      functionName: 'sandbox-shared',
      secretId: 'id',
      secretKey: 'key',
    });
  });

  it('is the real service without it', () => {
    expect(targetFromEnvironment(SERVICE)).toEqual({
      kind: 'scf',
      envId: 'env-1',
      functionName: 'sandbox-shared',
      secretId: 'id',
      secretKey: 'key',
    });
    expect(targetFromEnvironment({ ...SERVICE, SCF_SANDBOX_URL: '', TCB_TOKEN: 'token' })).toMatchObject({
      kind: 'scf',
      token: 'token',
    });
  });

  it('takes the name of the function from SCF_SANDBOX_FUNCTION', () => {
    const name = { SCF_SANDBOX_FUNCTION: 'other' };
    expect(targetFromEnvironment({ ...SERVICE, ...name })).toMatchObject({ functionName: 'other' });
    expect(targetFromEnvironment({ SCF_SANDBOX_URL: 'http://x', ...name })).toMatchObject({ functionName: 'other' });
  });

  it.each(Object.keys(SERVICE))('is refused without %s, with the names that are wanted', (name) => {
    expect(() => targetFromEnvironment({ ...SERVICE, [name]: undefined })).toThrow(
      'No target: set SCF_SANDBOX_URL for an emulator, or TCB_ENV_ID, TCB_SECRET_ID and TCB_SECRET_KEY for the real service',
    );
  });
});

describe('the addresses of a target', () => {
  it('are below the gateway of the environment', () => {
    const target = { kind: 'scf', envId: 'env-1', functionName: 'fn', secretId: 'id', secretKey: 'key' } as const;
    expect(resolveTarget(target)).toEqual({
      baseUrl: 'https://env-1.api.tcloudbasegateway.com/v1/functions/fn',
      tokenUrl: 'https://env-1.api.tcloudbasegateway.com/auth/v1/token/clientCredential',
    });
  });

  it('are below the URL of the emulator, with or without a slash at its end', () => {
    for (const url of ['http://127.0.0.1:9000', 'http://127.0.0.1:9000/', 'http://127.0.0.1:9000//']) {
      expect(resolveTarget({ kind: 'emulator', url })).toEqual({
        baseUrl: 'http://127.0.0.1:9000/v1/functions/sandbox-shared',
        tokenUrl: 'http://127.0.0.1:9000/auth/v1/token/clientCredential',
      });
    }
  });
});
