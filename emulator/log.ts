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
    return toPlainLine(parts);
  }
  const details = [who, instance, stderr, err instanceof Object && 'stack' in err ? err.stack : undefined];
  return toPlainLine([line.msg, ...details]);
}

/** Commands and their output have a say in these parts; none of them may steer the terminal or forge a line. */
function toPlainLine(parts: unknown[]): string {
  const text = parts.filter(Boolean).join('  ');
  return text.replace(CONTROL_CHARACTERS, (character) => (character === '\n' ? '\n    ' : '\uFFFD'));
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL_CHARACTERS = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g;
