import type { Variables } from '../../client/wire/session.js';

const SECRET_NAME = /SECRET|TOKEN|KEY|PASSWORD|PASSWD|CREDENTIAL|AUTH/i;
const SHORTEST_SECRET = 4;
const FIRST_LINE_CHARACTERS = 200;
/** The patterns look no further, since their time grows with the square of the length. */
const EXAMINED_CHARACTERS = 10 * FIRST_LINE_CHARACTERS;

const PATTERNS: ReadonlyArray<[RegExp, string]> = [
  // user:password@ in a URL
  [/(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@'"]+@/gi, '$1***@'],
  // Authorization: Bearer …, Basic …
  [/\b(bearer|basic)\s+[^\s'"]+/gi, '$1 ***'],
  // NAME_TOKEN=…, --password …, "secretKey": "…"
  [
    /([\w-]*(?:secret|token|passw(?:or)?d|api_?key|access_?key|credential)[\w-]*["']?\s*[=:\s]\s*)(?:"[^"]*"?|'[^']*'?|[^\s'"&;|]+)/gi,
    '$1***',
  ],
];

/**
 * First line of a command as a log may show it: at most 200 characters, without the values of the
 * session's secret variables and without what looks like a credential.
 */
export function toLoggedCommand(command: string, variables: Variables): string {
  const secrets = Object.entries(variables)
    .filter(([name, value]) => SECRET_NAME.test(name) && value.length >= SHORTEST_SECRET)
    .map(([, value]) => value)
    .sort((a, b) => b.length - a.length);
  let text = command;
  // Before the cut, since a secret may have several lines.
  for (const secret of secrets) text = text.replaceAll(secret, '***');
  let line = (text.split('\n', 1)[0] ?? '').slice(0, EXAMINED_CHARACTERS);
  for (const [pattern, replacement] of PATTERNS) line = line.replace(pattern, replacement);
  return line.slice(0, FIRST_LINE_CHARACTERS);
}
