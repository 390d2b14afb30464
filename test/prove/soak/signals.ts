/** A sender that emits a signal now and then and remembers the responses. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '../../support/crash/client.ts';

export const SOURCE = 'soak';

export function startSignals(client: Client, restMs: number): { stop(): Promise<string[]> } {
  const stopping = new AbortController();
  const ids: string[] = [];
  const say = async (): Promise<void> => {
    for (let count = 0; !stopping.signal.aborted; count += 1) {
      const word = { type: 'soak.said', source: SOURCE, data: { count } };
      const answer = await client.post('/signals', word).catch(() => undefined);
      if (answer?.status === 201) ids.push(answer.body['signal_id'] as string);
      await sleep(restMs);
    }
  };
  const saying = say();
  return {
    async stop() {
      stopping.abort();
      await saying;
      return ids;
    },
  };
}
