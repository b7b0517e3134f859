import type { Variables } from '../client/wire/session.js';

/** What the environment of one command can take. Evidence: emulator-only. */
export const COMMAND_LIMIT_BYTES = 512 * 1024;
/** What a session may hold for all its conversations. Evidence: emulator-only. */
const SESSION_LIMIT_BYTES = 8 * 1024 * 1024;

/**
 * The variables that clients gave to a session. The last value wins for all conversations; a call that
 * names its conversation also sets the values for that conversation, whose own values are preferred
 * (`WORKSPACE_FOLDER_PATHS` differs from conversation to conversation).
 *
 * They are kept in memory by the gateway and handed to each generation of the instance. They are never
 * written to disk and never logged. Evidence: names client-seen, preference emulator-only.
 */
export type VariablesSnapshot = { session: Variables; conversations: Record<string, Variables> };

export function createSessionVariables(snapshot: VariablesSnapshot = { session: {}, conversations: {} }) {
  const session: Variables = { ...snapshot.session };
  const conversations = new Map(Object.entries(snapshot.conversations).map(([id, values]) => [id, { ...values }]));
  let held = [session, ...conversations.values()].reduce((sum, variables) => sum + sizeOf(variables), 0);

  return {
    /** @returns False, and nothing is set, when the session would then hold more than it may. */
    apply(values: Variables, conversationId: string | undefined): boolean {
      const own = conversationId === undefined ? undefined : { ...conversations.get(conversationId), ...values };
      const common = { ...session, ...values };
      const before = conversationId === undefined ? 0 : sizeOf(conversations.get(conversationId) ?? {});
      const total = held - sizeOf(session) - before + sizeOf(common) + sizeOf(own ?? {});
      if (sizeOf({ ...common, ...own }) > COMMAND_LIMIT_BYTES || total > SESSION_LIMIT_BYTES) return false;
      Object.assign(session, values);
      if (conversationId !== undefined && own) conversations.set(conversationId, own);
      held = total;
      return true;
    },

    for(conversationId: string | undefined): Variables {
      return { ...session, ...(conversationId === undefined ? {} : conversations.get(conversationId)) };
    },

    snapshot(): VariablesSnapshot {
      return { session, conversations: Object.fromEntries(conversations) };
    },
  };
}

export type SessionVariables = ReturnType<typeof createSessionVariables>;

function sizeOf(variables: Variables): number {
  return Object.entries(variables).reduce((sum, [name, value]) => sum + name.length + Buffer.byteLength(value), 0);
}

/**
 * Names that clients cannot set, since they would change which program runs or how the shell starts.
 * The archive's and the container's own secrets belong to the container and are not for commands.
 */
const RESERVED_NAMES = new Set([
  'PATH',
  'HOME',
  'SHELL',
  'USER',
  'LOGNAME',
  'PWD',
  'OLDPWD',
  'SHLVL',
  '_',
  'IFS',
  'BASH_ENV',
  'ENV',
  'SHELLOPTS',
  'BASHOPTS',
  'PS4',
  'PROMPT_COMMAND',
  'CDPATH',
  'GLOBIGNORE',
  'NODE_OPTIONS',
  'NODE_CHANNEL_FD',
  'NODE_CHANNEL_SERIALIZATION_MODE',
  'GIT_ARCHIVE_REPO',
  'GIT_ARCHIVE_TOKEN',
  'GIT_ARCHIVE_USER',
  'SECRET_MASTER_KEY',
]);
const RESERVED_PREFIXES = ['LD_', 'DYLD_', 'BASH_FUNC_', 'SCF_SANDBOX_'];
const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Splits what a client sent into what is set and the names that are not. */
export function acceptVariables(values: Variables): { accepted: Variables; ignored: string[] } {
  const accepted: Variables = {};
  const ignored: string[] = [];
  for (const [name, value] of Object.entries(values)) {
    if (isSettable(name)) accepted[name] = value;
    else ignored.push(name);
  }
  return { accepted, ignored };
}

function isSettable(name: string): boolean {
  return (
    VARIABLE_NAME.test(name) &&
    !RESERVED_NAMES.has(name) &&
    !RESERVED_PREFIXES.some((prefix) => name.startsWith(prefix))
  );
}
