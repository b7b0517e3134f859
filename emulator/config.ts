import { homedir } from 'node:os';
import path from 'node:path';
import { z } from 'zod';

const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** A number, or its digits as the command line has them. */
function wholeNumber(least: number, most: number) {
  const digits = z.string().regex(/^\d+$/, 'must be a whole number').transform(Number);
  return z.union([z.number(), digits]).pipe(z.number().int().min(least).max(most));
}

/** Every setting of the emulator, with its default. The command line has the same names in kebab case. */
const configSchema = z.strictObject({
  /** Address to listen on. Any but loopback forces `auth: 'strict'`. */
  host: z.string().min(1).default('127.0.0.1'),
  /** 0 takes a free port. */
  port: wholeNumber(0, 65535).default(9000),
  /** Everything that the emulator keeps. */
  dataDir: z
    .string()
    .min(1)
    .default(() => path.join(homedir(), '.scf-sandbox'))
    .transform((directory) => path.resolve(directory)),
  /** Keeps nothing after the emulator stops; the data directory is a temporary one. */
  ephemeral: z.boolean().default(false),
  isolation: z.enum(['auto', 'require', 'none']).default('auto'),
  auth: z.enum(['lenient', 'strict']).default('lenient'),
  /** Lifetime of issued tokens in seconds. Evidence of the default: client-seen. */
  tokenTtl: wholeNumber(1, 31_536_000).default(432_000),
  /** The one key pair that the token endpoint accepts; without it any pair will do on loopback. */
  credentials: z.object({ secretId: z.string().min(1), secretKey: z.string().min(1) }).optional(),
  /** Further names by which clients may address the emulator. */
  allowedHost: z.array(z.string().min(1)).default([]),
  /** Origins of web pages that may call the emulator. Other schemes have the origin `null`, as any sandboxed page has. */
  allowedOrigin: z
    .array(z.url({ protocol: /^https?$/, error: 'must be the http or https origin of a web page' }))
    .default([]),
  /** Variables of the emulator's environment that commands get too. */
  passEnv: z.array(z.string().regex(VARIABLE_NAME, 'is not the name of an environment variable')).default([]),
  /** Refuses body fields that a route does not know, instead of ignoring them. */
  strictFields: z.boolean().default(false),
  /** Ends a command when its client goes away. */
  cancelOnDisconnect: z.boolean().default(false),
  log: z.enum(['auto', 'pretty', 'json', 'silent']).default('auto'),
});

export type EmulatorOptions = z.input<typeof configSchema>;
export type Config = Readonly<z.output<typeof configSchema>>;

/** @throws z.ZodError that names each setting and what is wrong with it. */
export function parseConfig(options: EmulatorOptions): Config {
  const config = configSchema.parse(options);
  return Object.freeze(isLoopback(config.host) ? config : { ...config, auth: 'strict' });
}

/** True for addresses that only this machine reaches. */
export function isLoopback(host: string): boolean {
  return (
    host === 'localhost' ||
    host === '::1' ||
    host === '::ffff:127.0.0.1' ||
    /^(?:::ffff:)?127(?:\.\d{1,3}){3}$/.test(host)
  );
}
