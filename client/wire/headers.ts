/** Names of the headers that carry meaning, in lower case as Node reports them. */
export const HEADER = {
  /** Chooses the session; `envId` after the redesign. Evidence: client-seen. */
  sessionId: 'x-cloudbase-session-id',
  /** Names the conversation, as the design document has it. Evidence: client-seen. */
  conversationId: 'x-conversation-id',
  /** The name that replaced `X-Conversation-Id` in later clients. Evidence: client-seen. */
  scopeId: 'x-scope-id',
  requestId: 'x-request-id',
  /** Tells one generation of an instance from the next. Evidence: emulator-only. */
  emulatorInstance: 'x-emulator-instance',
} as const;
