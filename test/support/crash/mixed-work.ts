/** Work of every kind: jobs with and without a key, pipelines with a block, and a schedule. */
import type { Setup } from '../instance.ts';
import { between, type Random } from './random.ts';
import type { JobOptions } from './recorder.ts';

export const tickEveryMs = 400;
const file = '../../record';
const silentRecorder = { uses: 'recorder', config: { file, emits: false } };
/** Number of requests for each key. */
const REQUESTS_PER_KEY = 4;

export const mixed: Pick<Setup, 'pipelines' | 'aliases'> = {
  pipelines: [
    {
      name: 'spread',
      steps: [
        { id: 'each', foreach: 'payload.items', steps: [{ id: 'note', uses: 'element.poll' }] },
        { id: 'last', uses: 'last.poll' },
      ],
    },
  ],
  aliases: {
    element: silentRecorder,
    last: silentRecorder,
    ticker: { ...silentRecorder, schedules: [{ every: `${tickEveryMs}ms` }] },
  },
};

/** Creates mostly quick jobs, some that fail first, and some that take longer. */
export function plainJobOptions(random: Random): JobOptions {
  const kind = random();
  if (kind < 0.1) return { fail_before: 2 };
  if (kind < 0.25) return { sleep_ms: between(random, 100, 500) };
  return {};
}

/** Mixes jobs with runs of a pipeline, and some of both with a dedupe key; `breadth` makes blocks wider. */
export function makeMixedJobOptions(prefix = 'key', breadth = 1): (random: Random) => JobOptions {
  let keyed = 0;
  const nextKey = (): string => `${prefix}-${Math.floor((keyed += 1) / REQUESTS_PER_KEY)}`;
  return (random) => {
    const kind = random();
    if (kind < 0.08) return { items: between(random, 1, 6 * breadth) };
    if (kind < 0.14) return { items: between(random, 1, 3 * breadth), dedupe: nextKey() };
    if (kind < 0.35) return { dedupe: nextKey() };
    return plainJobOptions(random);
  };
}
