import { describe, expect, it } from 'vitest';
import { errorBodySchema } from '../../../client/wire/envelope.js';
import { SandboxError, systemErrorCode, toErrorBody, toSandboxError } from '../../../emulator/errors.js';

describe('an expected error', () => {
  it.each([
    ['INVALID_REQUEST', 400],
    ['MISSING_CREDENTIALS', 401],
    ['ACCESS_DENIED', 403],
    ['NOT_FOUND', 404],
    ['METHOD_NOT_ALLOWED', 405],
    ['REQUEST_TOO_LARGE', 413],
    ['UNSUPPORTED_MEDIA_TYPE', 415],
    ['FOREIGN_HOST', 421],
    ['INSTANCE_START_FAILED', 443],
    ['INSTANCE_CRASHED', 443],
    ['INTERNAL', 500],
    ['SESSION_STARTING', 503],
    ['SHUTTING_DOWN', 503],
  ] as const)('%s has status %i', (code, status) => {
    expect(new SandboxError(code, 'text').status).toBe(status);
  });

  it('is answered in the envelope and in the form of the gateway at once', () => {
    const body = toErrorBody(new SandboxError('NOT_FOUND', 'There is no such thing'), 'request-1');
    expect(body).toEqual({
      success: false,
      error: 'There is no such thing',
      code: 'NOT_FOUND',
      message: 'There is no such thing',
      requestId: 'request-1',
    });
    expect(errorBodySchema.parse(body)).toEqual(body);
  });

  it('stays what it is', () => {
    const error = new SandboxError('NOT_FOUND', 'text');
    expect(toSandboxError(error)).toBe(error);
  });
});

describe('an unexpected error', () => {
  it.each([[new Error('password=hunter2')], ['hunter2'], [undefined], [null], [{ secret: 'hunter2' }]])(
    'becomes INTERNAL and keeps its text to itself: %j',
    (thrown) => {
      const error = toSandboxError(thrown);
      expect({ code: error.code, status: error.status, cause: error.cause }).toEqual({
        code: 'INTERNAL',
        status: 500,
        cause: thrown,
      });
      expect(JSON.stringify(toErrorBody(error, 'request-1'))).not.toContain('hunter2');
    },
  );
});

describe('the code of a system error', () => {
  it('is that of a failed call', () => {
    expect(systemErrorCode(Object.assign(new Error('text'), { code: 'ENOENT' }))).toBe('ENOENT');
  });

  it.each([[new Error('text')], [Object.assign(new Error('text'), { code: 5 })], [{ code: 'ENOENT' }], [undefined]])(
    'is undefined for %j',
    (thrown) => {
      expect(systemErrorCode(thrown)).toBeUndefined();
    },
  );
});
