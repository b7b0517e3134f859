import { type Logger, pino } from 'pino';
import pretty from 'pino-pretty';

export type LogFormat = 'auto' | 'pretty' | 'json' | 'silent';
export type Log = Logger;

/**
 * The one log of the emulator, on standard output: readable on a terminal, JSON lines otherwise. It
 * never holds a token, a variable's value or a body.
 */
export function createLog(format: LogFormat): Log {
  const options = {
    base: undefined,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  if (format === 'silent') return pino({ ...options, level: 'silent' });
  const readable = format === 'pretty' || (format === 'auto' && process.stdout.isTTY);
  const destination = readable
    ? pretty({ sync: true, colorize: process.stdout.isTTY })
    : pino.destination({ dest: 1, sync: true });
  return pino(options, destination);
}
