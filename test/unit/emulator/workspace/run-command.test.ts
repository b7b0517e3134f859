import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { deadlinesFor } from '../../../../emulator/workspace/run-command.js';

describe('the deadlines of a command', () => {
  it('end it, by force too, before the caller gives up', () => {
    fc.assert(
      fc.property(fc.double({ min: 1, max: 900_000, noNaN: true }), (timeoutMs) => {
        const { actAfterMs, graceMs } = deadlinesFor(timeoutMs);
        expect(actAfterMs).toBeGreaterThan(0);
        expect(graceMs).toBeGreaterThan(0);
        expect(actAfterMs + graceMs).toBeLessThan(timeoutMs);
      }),
    );
  });

  it('leave a command at least half of its time, and all but a second of a long one', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 900_000 }), (timeoutMs) => {
        const { actAfterMs } = deadlinesFor(timeoutMs);
        expect(actAfterMs).toBeGreaterThanOrEqual(Math.max(timeoutMs / 2, timeoutMs - 1_000));
      }),
    );
  });

  it.each([
    [1, { actAfterMs: 0.5, graceMs: 0.25 }],
    [100, { actAfterMs: 50, graceMs: 25 }],
    [1_000, { actAfterMs: 900, graceMs: 50 }],
    [4_000, { actAfterMs: 3_600, graceMs: 200 }],
    [120_000, { actAfterMs: 119_000, graceMs: 200 }],
    [900_000, { actAfterMs: 899_000, graceMs: 200 }],
  ])('are for a timeout of %i ms as documented', (timeoutMs, expected) => {
    expect(deadlinesFor(timeoutMs)).toEqual(expected);
  });
});
