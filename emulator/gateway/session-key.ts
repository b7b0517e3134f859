/** One session of one function. The same session id under two functions is two sessions. */
export type SessionKey = { functionName: string; sessionId: string };

export function toKeyString({ functionName, sessionId }: SessionKey): string {
  return `${functionName}/${sessionId}`;
}
