import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { conversationIdSchema, functionNameSchema, sessionIdSchema } from '../../../../client/wire/ids.js';

const GATES = [
  ['session id', sessionIdSchema, 128],
  ['conversation id', conversationIdSchema, 128],
  ['function name', functionNameSchema, 60],
] as const;

/** Strings that come close to an id, and such that do not. */
const nearIds = fc.oneof(
  fc.string({ unit: fc.constantFrom(...'aZ09._:@+=-/\\\0 \n\r\t"\'`$();&|<>*?~#%é会'), maxLength: 8 }),
  fc.string({ unit: fc.constantFrom('.', '/', 'a'), maxLength: 4 }),
  fc.string({ unit: 'binary', maxLength: 10 }),
  fc.string({ unit: fc.constantFrom(...'aZ09_-'), minLength: 1, maxLength: 140 }),
);

describe.each(GATES)('the gate for a %s', (_name, schema, longest) => {
  const accepts = (id: string) => schema.safeParse(id).success;

  it('accepts nothing that is more than one plain name of a file', () => {
    fc.assert(
      fc.property(nearIds, (id) => {
        if (!accepts(id)) return;
        expect(id).toMatch(/^[\w.:@+=-]+$/);
        expect(id).not.toMatch(/[/\\\0\s'"`$]/);
        expect(['.', '..']).not.toContain(id);
        expect(id.startsWith('-') || id.startsWith('.')).toBe(false);
        expect(Buffer.byteLength(id)).toBeLessThanOrEqual(longest);
      }),
      { numRuns: 2_000 },
    );
  });

  it('accepts letters, digits, _ and - inside, up to its longest', () => {
    const middle = fc.string({ unit: fc.constantFrom(...'azAZ09_-'), maxLength: longest - 2 });
    fc.assert(fc.property(middle, (text) => accepts(`a${text}z`)));
    expect(accepts('a'.repeat(longest))).toBe(true);
    expect(accepts('a'.repeat(longest + 1))).toBe(false);
  });

  it.each(['', '.', '..', '-a', '../a', 'a/b', 'a\0', 'a\n', ' a', 'a '])('refuses %j', (id) => {
    expect(accepts(id)).toBe(false);
  });

  it('takes nothing but a string', () => {
    for (const value of [undefined, null, 5, {}, ['a'], true]) expect(schema.safeParse(value).success).toBe(false);
  });
});

describe('a session id', () => {
  it('may be envId:userId', () => {
    const part = fc.string({ unit: fc.constantFrom(...'azAZ09-'), minLength: 1, maxLength: 60 });
    fc.assert(fc.property(part, part, (envId, userId) => sessionIdSchema.safeParse(`e${envId}:${userId}`).success));
  });
});
