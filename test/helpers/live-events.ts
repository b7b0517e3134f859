import type { Emulator } from '../../dist/emulator/index.js';
import { eventually } from './emulator.js';

export type LiveRequest = { path: string; sessionId?: string; status: number; aborted?: boolean; exitCode?: number };

/** Listens to what the emulator tells about requests, until the end of the test that calls it. */
export async function followRequests(emulator: Emulator) {
  const stop = new AbortController();
  const response = await fetch(`${emulator.url}/_emulator/events`, { signal: stop.signal });
  let text = '';
  const reading = (async () => {
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) text += chunk;
  })().catch(() => {}); // ends by being aborted
  const requests = () =>
    [...text.matchAll(/^event: request\ndata: (.*)$/gm)].map(([, data = '']) => JSON.parse(data) as LiveRequest);
  await eventually('the stream of events is open', () => text.includes('event: hello'));
  return {
    /** Everything that was received, as it came. */
    text: () => text,
    requests,
    async until(what: string, condition: (request: LiveRequest) => boolean): Promise<void> {
      await eventually(what, () => requests().some(condition));
    },
    async stop(): Promise<void> {
      stop.abort();
      await reading;
    },
  };
}
