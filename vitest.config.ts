import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    reporters: ['default', './test/helpers/count-reporter.ts'],
    projects: [
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'] } },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          // Deadlines against hangs only; the machine may be busy.
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: 2,
          // Projects with different numbers of workers have to run one after the other.
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
