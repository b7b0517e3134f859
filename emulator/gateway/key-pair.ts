import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import { type Config, isLoopback } from '../config.js';
import { readOrMake } from '../files.js';

export type KeyPair = { secretId: string; secretKey: string };

const keyPairSchema = z.object({ secretId: z.string().min(1), secretKey: z.string().min(1) });

/**
 * The key pair that the token endpoint asks for: the configured one; else one made and kept in the data
 * directory when others than this machine can reach the emulator; else none, and any pair will do.
 *
 * @throws Error that names the file when what is kept is not a key pair.
 */
export async function requiredKeyPair(config: Config, dataDir: string): Promise<KeyPair | undefined> {
  if (config.credentials) return config.credentials;
  if (isLoopback(config.host)) return undefined;
  const file = path.join(dataDir, 'credentials.json');
  const content = await readOrMake(file, () => {
    const made: KeyPair = { secretId: randomBytes(16).toString('hex'), secretKey: randomBytes(24).toString('hex') };
    return JSON.stringify(made, null, 2);
  });
  try {
    return keyPairSchema.parse(JSON.parse(content));
  } catch (error) {
    throw new Error(`${file} does not hold a key pair; delete it, and a new one is made at the next start`, {
      cause: error,
    });
  }
}
