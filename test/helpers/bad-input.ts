import { randomId } from './emulator.js';
import type { RawRequest } from './raw-request.js';

/** A request that is refused, and how. `message` is matched against the whole text. */
export type BadInput = {
  what: string;
  request: RawRequest;
  status: number;
  code: string;
  message: RegExp;
  allow?: string;
  /** True when the connection cannot be used again. */
  closes?: boolean;
};

/** The session that the table is tried on, where a row does not name another. */
export const BAD_INPUT_SESSION = randomId('bad');

const SESSION = { 'X-Cloudbase-Session-Id': BAD_INPUT_SESSION };
const JSON_TYPE = { 'Content-Type': 'application/json' };
const TOKEN_PATH = '/auth/v1/token/clientCredential';
const OVER_LIMIT = Buffer.alloc(6 * 1024 * 1024 + 1, ' ');

const get = (headers: RawRequest['headers'], path = '/health'): RawRequest => ({ path, headers });
const post = (path: string, body: RawRequest['body'], headers: RawRequest['headers'] = {}): RawRequest => ({
  method: 'POST',
  path,
  headers: { ...SESSION, ...JSON_TYPE, ...headers },
  body,
});
const bash = (body: RawRequest['body'], headers?: RawRequest['headers']) => post('/api/tools/bash', body, headers);
const init = (body: unknown) => post('/api/session/init', JSON.stringify(body));
const env = (body: unknown) => ({ ...post('/api/session/env', JSON.stringify(body)), method: 'PUT' });
/** Header values travel as bytes; this is how UTF-8 looks to Node's client. */
const utf8Header = (text: string) => Buffer.from(text).toString('latin1');
const shorten = (text: string) => (text.length > 30 ? `of ${text.length} characters` : JSON.stringify(text));

const ILLEGAL_SESSION_IDS = [
  '',
  '.',
  '..',
  '-a',
  ':a',
  '_a',
  '"a"',
  "'a'",
  '$(id)',
  'a/b',
  'a\\b',
  'a b',
  'a\tb',
  'a,b',
]
  .concat(['a@b', 'a;b', '%2e%2e', 'über', utf8Header('环境'), 'a'.repeat(129)])
  .map((id) => ({
    what: `session id ${shorten(id)}`,
    request: get({ 'X-Cloudbase-Session-Id': id }),
    status: 400,
    code: 'INVALID_SESSION_ID',
    message: /^The session id ".*" must be 1 to 128 characters from .* and begin with a letter or digit$/,
  }));

const CONVERSATION_PLACES: Record<string, (id: string) => RawRequest> = {
  'X-Conversation-Id': (id) => bash('{"command":"true"}', { 'X-Conversation-Id': utf8Header(id) }),
  'X-Scope-Id': (id) => bash('{"command":"true"}', { 'X-Scope-Id': utf8Header(id) }),
  'the body of session/init': (id) => init({ conversationId: id }),
  'the body of session/env': (id) => env({ conversationId: id }),
};
const ILLEGAL_CONVERSATION_IDS = Object.entries(CONVERSATION_PLACES).flatMap(([place, toRequest]) =>
  ['', '.', '..', '../a', '-a', '"a"', "'a'", '$(id)', 'a/b', 'a\\b', 'a b', 'a,b', '会话', 'a'.repeat(129)].map(
    (id) => ({
      what: `conversation id ${shorten(id)} in ${place}`,
      request: toRequest(id),
      status: 400,
      code: 'INVALID_CONVERSATION_ID',
      message: /^The conversation id ".*" must be 1 to 128 characters from .* and begin with a letter, digit or _$/,
    }),
  ),
);

const ILLEGAL_FUNCTION_NAMES = ['a', '1a', '-a', 'a-', 'a_', 'a.b', 'a%2Fb', '%22a%22', '$(id)', 'a%20b', '%E5%87%BD']
  .concat(['..%2F..', '%zz', 'a'.repeat(61)])
  .map((name) => ({
    what: `function name ${shorten(name)}`,
    request: get(SESSION, `/v1/functions/${name}/health`),
    status: 400,
    code: 'INVALID_FUNCTION_NAME',
    message: /^The function name ".*" must be 2 to 60 characters from .*, begin with a letter and end with a letter or/,
  }));

const CONTENT_TYPES = [
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'text/json',
]
  .concat(['application/json5', 'application/jsonp', ''])
  .map((type) => ({
    what: `content type ${JSON.stringify(type)}`,
    request: bash('{"command":"true"}', { 'Content-Type': type }),
    status: 415,
    code: 'UNSUPPORTED_MEDIA_TYPE',
    message: /^\/api\/tools\/bash takes Content-Type: application\/json, not ".*"$/,
  }));

const malformed = (what: string, request: RawRequest, message: RegExp): BadInput => ({
  what,
  request,
  status: 400,
  code: 'MALFORMED_JSON',
  message,
});
const MALFORMED_BODIES: BadInput[] = [
  ...['{', '{"command":"true"}x', "{'command':'true'}", '{"command":"true",}', 'undefined', '\0'].map((body) =>
    malformed(`body ${JSON.stringify(body)}`, bash(body), /^The body is not valid JSON: /),
  ),
  malformed(
    'malformed UTF-8',
    bash(Buffer.from('7b22636f6d6d616e64223a22ff227d', 'hex')),
    /^The body is not valid JSON: it is not UTF-8$/,
  ),
  malformed('no body for bash', bash(undefined), /^The body is not valid JSON: it is empty$/),
  malformed('empty body for bash', bash(''), /^The body is not valid JSON: it is empty$/),
  malformed('empty body for session/env', { ...env(''), body: '' }, /^The body is not valid JSON: it is empty$/),
];

const invalid = (what: string, request: RawRequest, message: RegExp): BadInput => ({
  what,
  request,
  status: 400,
  code: 'INVALID_REQUEST',
  message,
});
const NOT_AN_OBJECT: BadInput[] = ['[]', '"text"', 'null', '5', 'true'].flatMap((body) => [
  invalid(`body ${body} for bash`, bash(body), /^Invalid request: Invalid input: expected object, received /),
  invalid(`body ${body} for session/init`, post('/api/session/init', body), /^Invalid request: .* expected object, /),
  invalid(`body ${body} for session/env`, { ...env({}), body }, /^Invalid request: .* expected record, received /),
]);

const COMMANDS: BadInput[] = [
  invalid('no command', bash('{}'), /^Invalid request: command is required and must be a string$/),
  ...['5', 'null', '["ls"]', '{}', 'true'].map((command) =>
    invalid(`command ${command}`, bash(`{"command":${command}}`), /: command is required and must be a string$/),
  ),
  invalid('an empty command', bash('{"command":""}'), /^Invalid request: command must not be empty$/),
  invalid('a command with NUL', bash('{"command":"a\\u0000b"}'), /: command must not contain NUL characters$/),
  ...['-1', '0', '0.5'].map((timeout) =>
    invalid(
      `timeout ${timeout}`,
      bash(`{"command":"true","timeout":${timeout}}`),
      /: timeout must be at least 1 milli/,
    ),
  ),
  ...['900001', '1e300'].map((timeout) =>
    invalid(
      `timeout ${timeout}`,
      bash(`{"command":"true","timeout":${timeout}}`),
      /: timeout must be at most 900000 m/,
    ),
  ),
  ...['"5000"', 'null', 'true', '[1000]', '1e999'].map((timeout) =>
    invalid(`timeout ${timeout}`, bash(`{"command":"true","timeout":${timeout}}`), /: timeout must be a number of mil/),
  ),
];

const manyValues = Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`NAME_${n}`, 'v'.repeat(30 * 1024)]));
const BAD_VARIABLES: Array<[string, unknown, RegExp]> = [
  ['a number as variable', { NAME: 1 }, /^Invalid request: (env\.)?NAME: a variable must be a string$/],
  ['null as variable', { NAME: null }, /^Invalid request: (env\.)?NAME: a variable must be a string$/],
  ['an object as variable', { NAME: {} }, /^Invalid request: (env\.)?NAME: a variable must be a string$/],
  ['a variable with NUL', { NAME: 'a\0b' }, /NAME: a variable must not contain NUL characters$/],
  ['a variable of 40 KB', { NAME: 'v'.repeat(40 * 1024) }, /NAME: a variable may hold at most 32768 bytes$/],
  ['variables of 300 KB in sum', manyValues, /all variables of one request may hold at most 262144 bytes$/],
  ['a variable name of 300 characters', { ['N'.repeat(300)]: 'v' }, /N: a variable name may have at most 256 charact/],
];
const VARIABLES: BadInput[] = BAD_VARIABLES.flatMap(([what, values, message]) => [
  invalid(`${what} in session/env`, env(values), message),
  invalid(`${what} in session/init`, init({ env: values }), message),
]);
const INIT_FIELDS: BadInput[] = [
  ...[[], 'text', null, 5].map((value) =>
    invalid(`env ${JSON.stringify(value)} in session/init`, init({ env: value }), /^Invalid request: env: .* expected/),
  ),
  invalid(
    'a number as conversationId in session/init',
    init({ conversationId: 5 }),
    /conversationId must be a string$/,
  ),
  invalid('a number as conversationId in session/env', env({ conversationId: 5 }), /conversationId: .* be a string$/),
];

const tooLarge = (what: string, request: RawRequest): BadInput => ({
  what,
  request,
  status: 413,
  code: 'REQUEST_TOO_LARGE',
  message: /^The body is larger than 6291456 bytes; send less at once$/,
  closes: true,
});
const TOO_LARGE: BadInput[] = [
  tooLarge('a body over the limit with its length', bash(OVER_LIMIT)),
  tooLarge('a body over the limit in chunks', { ...bash(OVER_LIMIT), chunked: true }),
  tooLarge('a token request over the limit with its length', post(TOKEN_PATH, OVER_LIMIT)),
  tooLarge('a token request over the limit in chunks', { ...post(TOKEN_PATH, OVER_LIMIT), chunked: true }),
];

const ROUTES = { '/health': 'GET', '/api/session/init': 'POST', '/api/session/env': 'PUT', '/api/tools/bash': 'POST' };
const OWN_ROUTES = { [TOKEN_PATH]: 'POST', '/_emulator/state': 'GET', '/_emulator/events': 'GET' };
const BELOW_FUNCTION = Object.entries(ROUTES).map(([path, method]) => [`/v1/functions/sandbox-shared${path}`, method]);
const WRONG_METHODS: BadInput[] = [...Object.entries({ ...ROUTES, ...OWN_ROUTES }), ...BELOW_FUNCTION].flatMap(
  ([path = '', allow = '']) =>
    ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
      .filter((method) => method !== allow)
      .map((method) => ({
        what: `${method} ${path}`,
        request: { method, path, headers: SESSION },
        status: 405,
        code: 'METHOD_NOT_ALLOWED',
        message: new RegExp(`^/[\\w/]+ takes ${allow}, not ${method}$`),
        allow,
      })),
);

const noRoute = (path: string): BadInput => ({
  what: `unknown route ${path}`,
  request: post(path, '{"command":"true"}'),
  status: 404,
  code: 'NOT_FOUND',
  message: /^There is no route POST \/.*$/,
});
const noTool = (name: string): BadInput => ({
  what: `unknown tool ${name}`,
  request: post(`/api/tools/${name}`, '{}'),
  status: 404,
  code: 'TOOL_NOT_FOUND',
  message: /^There is no tool ".*"; the tools are bash/,
});
const UNKNOWN: BadInput[] = [
  ...['/', '/nowhere', '/api', '/api/tools', '/api/tools/', '/api/tools/bash/', '/api/tools/bash/x', '/API/tools/bash'],
  ...['//api/tools/bash', '/v1/functions/sandbox-shared', '/v1/functions/sandbox-shared/nowhere', '/_emulator/nowhere'],
]
  .map(noRoute)
  .concat(
    ['nothing', 'BASH', 'a%2Fb', '..%2Fbash', '%22', "'", '%00', '%zz', '__proto__', 'a'.repeat(500)].map(noTool),
  );

const GUARDED: BadInput[] = [
  ...['https://evil.example', 'null', '', 'file://', 'http://localhost:1', 'http://127.0.0.1.evil.example'].map(
    (origin) => ({
      what: `Origin ${JSON.stringify(origin)}`,
      request: bash('{"command":"true"}', { Origin: origin }),
      status: 400,
      code: 'FOREIGN_ORIGIN',
      message: /^The Origin ".*" may not call the emulator; allow it with --allowed-origin$/,
    }),
  ),
  ...['evil.example', 'evil.example:9000', 'localhost.evil.example', '127.0.0.1.evil.example', '0.0.0.0', '[::]'].map(
    (host) => ({
      what: `Host ${host}`,
      request: bash('{"command":"true"}', { Host: host }),
      status: 421,
      code: 'FOREIGN_HOST',
      message: /^The Host ".*" is not the emulator's; allow it with --allowed-host$/,
    }),
  ),
];

export const BAD_INPUT: readonly BadInput[] = [
  {
    what: 'no session id',
    request: { method: 'POST', path: '/api/tools/bash', headers: JSON_TYPE, body: '{"command":"true"}' },
    status: 400,
    code: 'MISSING_SESSION_ID',
    message: /^Send the header X-Cloudbase-Session-Id with the id of the environment$/,
  },
  {
    what: 'two session ids',
    request: get({ 'X-Cloudbase-Session-Id': ['one', 'two'] }),
    status: 400,
    code: 'INVALID_SESSION_ID',
    message: /^The session id "one, two" must be /,
  },
  ...ILLEGAL_SESSION_IDS,
  ...ILLEGAL_CONVERSATION_IDS,
  ...ILLEGAL_FUNCTION_NAMES,
  ...CONTENT_TYPES,
  ...MALFORMED_BODIES,
  ...NOT_AN_OBJECT,
  ...COMMANDS,
  ...VARIABLES,
  ...INIT_FIELDS,
  ...TOO_LARGE,
  ...WRONG_METHODS,
  ...UNKNOWN,
  ...GUARDED,
];
