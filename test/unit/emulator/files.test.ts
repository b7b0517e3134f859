import { chmod, mkdir, mkdtemp, readdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { listDirectoriesNoFollow, readOrMake, removeTree, unlockDirectories } from '../../../emulator/files.js';

let directory: string;
const made: string[] = [];
beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'scf-test-'));
  made.push(directory);
});
afterAll(async () => {
  for (const one of made) await removeTree(one);
});

describe('removeTree', () => {
  it('removes what is nested deeper than a path can be long', async () => {
    const deep = path.join(directory, 'deep');
    await mkdir(deep);
    await execa('bash', [
      '-c',
      `cd "$1"; for i in {1..60}; do mkdir ${'d'.repeat(200)} && cd ${'d'.repeat(200)}; done`,
      '-',
      deep,
    ]);
    expect(await removeTree(deep)).toBe(true);
    expect(await readdir(directory)).toEqual([]);
  });

  it('follows no link', async () => {
    await mkdir(path.join(directory, 'kept'));
    await mkdir(path.join(directory, 'gone'));
    await symlink(path.join(directory, 'kept'), path.join(directory, 'gone/link'));
    expect(await removeTree(path.join(directory, 'gone'))).toBe(true);
    expect(await readdir(directory)).toEqual(['kept']);
  });

  it('is content with what is not there', async () => {
    expect(await removeTree(path.join(directory, 'nothing'))).toBe(true);
  });
});

describe('a way of directories', () => {
  it('is unlocked and listed when every step is a directory', async () => {
    await mkdir(path.join(directory, 'a/b/c'), { recursive: true });
    await chmod(path.join(directory, 'a/b'), 0o000);
    expect(await unlockDirectories(directory, ['a', 'b'])).toBe(true);
    await rename(path.join(directory, 'a/b'), path.join(directory, 'moved'));
    expect(await listDirectoriesNoFollow(directory, ['moved'])).toEqual(['c']);
  });

  it.each([['a'], ['a', 'b']])('is refused when a link stands at %j', async (...link) => {
    await mkdir(path.join(directory, 'elsewhere/b/secret'), { recursive: true });
    if (link.length > 1) await mkdir(path.join(directory, 'a'));
    const target = link.length > 1 ? path.join(directory, 'elsewhere/b') : path.join(directory, 'elsewhere');
    await symlink(target, path.join(directory, ...link));
    expect(await unlockDirectories(directory, ['a', 'b'])).toBe(false);
    expect(await listDirectoriesNoFollow(directory, ['a', 'b'])).toEqual([]);
  });

  it('is refused when something else, or nothing, is there', async () => {
    await writeFile(path.join(directory, 'file'), '');
    expect(await unlockDirectories(directory, ['file'])).toBe(false);
    expect(await unlockDirectories(directory, ['none'])).toBe(false);
    expect(await listDirectoriesNoFollow(directory, ['none'])).toEqual([]);
  });
});

describe('readOrMake', () => {
  it('makes a file once, for one of several makers', async () => {
    const file = path.join(directory, 'key');
    expect(await readOrMake(file, () => 'first')).toBe('first');
    expect(await readOrMake(file, () => 'second')).toBe('first');
    expect(await readFile(file, 'utf8')).toBe('first');
    expect(await readdir(directory)).toEqual(['key']);
  });

  it('names a file that is empty', async () => {
    const file = path.join(directory, 'key');
    await writeFile(file, '');
    await expect(readOrMake(file, () => 'x')).rejects.toThrow(`${file} is empty; delete it`);
  });
});
