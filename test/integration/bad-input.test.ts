import { describe, expect, it } from 'vitest';
import { BAD_INPUT, BAD_INPUT_SESSION } from '../helpers/bad-input.js';
import { callerFor, namespacesHold, useEmulator } from '../helpers/emulator.js';
import { rawRequest } from '../helpers/raw-request.js';

const REQUEST_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Every refusal has one form, whichever process writes it, and none of them harms the session. */
describe('bad input', () => {
  const emulator = useEmulator(namespacesHold ? 'namespace' : 'none');
  const session = () => callerFor(emulator(), BAD_INPUT_SESSION);
  const instanceOf = async () => (await session().request('/health')).headers.get('x-emulator-instance');

  it('meets a session that works', async () => {
    expect((await session().bash('echo before > kept; cat kept')).output).toBe('before\n');
  });

  it.each(BAD_INPUT)('is refused: $what → $status $code', async ({ request, status, code, message, allow, closes }) => {
    const answer = await rawRequest(emulator().url, request);
    const requestId = answer.headers['x-request-id'];
    expect(requestId).toMatch(REQUEST_ID);
    const body = JSON.parse(answer.text);
    expect({ status: answer.status, body }).toEqual({
      status,
      body: { success: false, error: expect.stringMatching(message), code, message: body.error, requestId },
    });
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.headers.allow).toBe(allow);
    expect(answer.headers.connection).toBe(closes ? 'close' : 'keep-alive');
  });

  it('leaves the session and its instance as they were', async () => {
    const instance = await instanceOf();
    expect((await session().bash('cat kept; env | grep -c NAME_')).output).toBe('before\n0\n');
    expect(await instanceOf()).toBe(instance);
    const state = (await (await fetch(`${emulator().url}/_emulator/state`)).json()) as { sessions: unknown[] };
    expect(state.sessions).toEqual([
      expect.objectContaining({ sessionId: BAD_INPUT_SESSION, generations: 1, state: 'active', conversations: [] }),
    ]);
  });
});
