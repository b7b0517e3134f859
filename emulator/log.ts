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
    ? pretty({
        sync: true,
        colorize: process.stdout.isTTY,
        hideObject: true,
        ignore: 'name,pid',
        messageFormat: toReadable,
      })
    : pino.destination({ dest: 1, sync: true });
  return pino(options, destination);
}

/** One line for people: of a request what was asked and what came of it; else the message and what it is about. */
function toReadable(line: Record<string, unknown>): string {
  const { sessionId, conversationId, instance, stderr, err } = line;
  const who = [sessionId, conversationId].filter((id) => id !== undefined).join('/');
  if (line.event === 'request') {
    const { method, path, status, durationMs, command, exitCode, timedOut, code, warning, cause } = line;
    const outcome = timedOut ? 'timed out' : exitCode === undefined ? undefined : `exit ${exitCode}`;
    const parts = [
      method,
      path,
      status,
      `${durationMs} ms`,
      who,
      command && `$ ${command}`,
      outcome,
      code,
      warning,
      cause,
    ];
    return parts.filter(Boolean).join('  ');
  }
  const details = [who, instance, stderr, err instanceof Object && 'stack' in err ? err.stack : undefined];
  return [line.msg, ...details].filter(Boolean).join('  ');
}
