import type { Variables } from '../../client/wire/session.js';

const SECRET_NAME = /SECRET|TOKEN|KEY|PASS|PWD|CREDENTIAL|AUTH/i;
const SHORTEST_SECRET = 4;
const FIRST_LINE_CHARACTERS = 200;
/** How much of a line the patterns see. They take quadratic time: a megabyte would block the instance for hours. */
const SEARCHED_CHARACTERS = 1_000;

/** A value as shells and JSON write it; a quote that is not closed reaches to the end of the line. */
const VALUE = String.raw`(?:\\"(?:[^"\\]|\\[^"])*(?:\\"|"|$)|"(?:\\.|[^"\\])*(?:"|$)|'[^']*(?:'|$)|(?:\\.|[^\s'"&;|\\])+)`;
const NAME = String.raw`(?<![\w-])[\w-]*(?:secret|token|passw(?:or)?d|api[_-]?key|access[_-]?key|credential)[\w-]*`;

const PATTERNS: ReadonlyArray<[RegExp, string]> = [
  // user:password@ in a URL
  [/(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/'"]+@/gi, '$1***@'],
  // Authorization: Bearer …, Basic …
  [/\b(bearer|basic)\s+[^\s'"]+/gi, '$1 ***'],
  // --user name:password, but not the numbers of a user and a group
  [/(\s(?:-u|--user)[\s=]*["']?(?!\d+:\d+\b)[^\s:'"]+:)[^\s'"]+/g, '$1***'],
  // NAME_TOKEN=…, --password …, "secretKey": "…", \"secretKey\": \"…\"
  [new RegExp(String.raw`(${NAME}(?:\\?["'])?\s*[=:\s]\s*)${VALUE}`, 'gi'), '$1***'],
  // MYSQL_PWD=…, DB_PASS=…, SIGNING_KEY=…
  [new RegExp(String.raw`(\b\w*_(?:pwd|pass|key)=)${VALUE}`, 'gi'), '$1***'],
];

/**
 * First line of a command as a log may show it: at most 200 characters, without the values of the
 * session's secret variables and without what looks like a credential.
 */
export function toLoggedCommand(command: string, variables: Variables): string {
  let text = command;
  const secrets = Object.entries(variables)
    .filter(([name, value]) => SECRET_NAME.test(name) && value.length >= SHORTEST_SECRET)
    .map(([, value]) => value)
    .sort((a, b) => b.length - a.length);
  // In the whole command, since a value may have several lines.
  for (const secret of secrets) text = text.replaceAll(secret, '***');
  const firstLine = text.split('\n', 1)[0] ?? '';
  let line = firstLine.slice(0, SEARCHED_CHARACTERS);
  for (const [pattern, replacement] of PATTERNS) line = line.replace(pattern, replacement);
  // What was cut off may have been the part by which a credential is known.
  if (firstLine.length > SEARCHED_CHARACTERS && line.length < FIRST_LINE_CHARACTERS) line = line.replace(/\S+$/, '');
  return line.slice(0, FIRST_LINE_CHARACTERS);
}
