import { EventEmitter } from 'node:events';
import type { Trace } from './instance-protocol.js';

/** One request, when it is over; the log line and the live event say the same. */
export type RequestRecord = Trace & {
  requestId: string;
  method: string;
  /** Path as the client sent it, without query. */
  path: string;
  functionName?: string;
  sessionId?: string;
  instance?: string;
  /** 0 when the client left before an answer was begun. */
  status: number;
  durationMs: number;
  /** Code of the error that was answered. */
  code?: string;
  /** True when the client left before the answer was complete. */
  aborted?: boolean;
};

export type SessionEvent = {
  functionName: string;
  sessionId: string;
  state: 'starting' | 'active' | 'crashed' | 'stopped' | 'failed';
  instance?: string;
};

/** `ready` with an empty path says that changes below the session root are reported from now on. */
type FileChange = 'ready' | 'add' | 'addDir' | 'change' | 'unlink' | 'unlinkDir';

export type FileEvent = {
  functionName: string;
  sessionId: string;
  /** Relative to the session root; its first part is the conversation. */
  path: string;
  change: FileChange;
};

type EventMap = { request: [RequestRecord]; session: [SessionEvent] };

/** What happens in the emulator, for whoever listens. */
export function createEvents() {
  return new EventEmitter<EventMap>().setMaxListeners(0);
}

export type Events = ReturnType<typeof createEvents>;
