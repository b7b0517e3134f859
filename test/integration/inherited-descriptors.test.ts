import { spawn } from 'node:child_process';
import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';

const MODULE = new URL('../../dist/emulator/isolation/inherited-descriptors.js', import.meta.url).href;
/** Lists the descriptors of a child of a child: what an instance would have, and what its commands would. */
const PROGRAM = `
  import { spawnSync } from 'node:child_process';
  import { coverInherited } from ${JSON.stringify(MODULE)};
  const list = \`
    const { readdirSync, readlinkSync } = require('node:fs');
    const { spawnSync } = require('node:child_process');
    process.stdout.write(readlinkSync('/proc/self/fd/200') + '\\\\n');
    spawnSync('ls', ['/proc/self/fd'], { stdio: ['ignore', 'inherit', 'inherit'] });
  \`;
  spawnSync(process.execPath, ['-e', list], { stdio: ['ignore', 'inherit', 'inherit', ...coverInherited(3)] });
`;

it('a file that the emulator was started with open reaches neither an instance nor its commands', async () => {
  const secret = await open(new URL(import.meta.url), 'r');
  try {
    const covered = Array.from({ length: 197 }, () => 'ignore' as const);
    const child = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM], {
      stdio: ['ignore', 'pipe', 'inherit', ...covered, secret.fd],
    });
    // The 'pipe' entry makes it.
    expect(await text(child.stdout as Readable)).toBe('/dev/null\n0\n1\n2\n3\n');
  } finally {
    await secret.close();
  }
});
