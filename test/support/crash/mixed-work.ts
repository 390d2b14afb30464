/** Work of every kind: jobs with and without a key, pipelines with a block, and a schedule. */
import type { Setup } from '../instance.ts';
import { between, type Random } from './random.ts';
import type { Wish } from './recorder.ts';

export const tickEveryMs = 400;
const file = '../../record';
const quiet = { uses: 'recorder', config: { file, emits: false } };
/** Each key is asked for so many times, by whoever comes. */
const KEY_ASKED = 4;

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
    element: quiet,
    last: quiet,
    ticker: { ...quiet, schedules: [{ every: `${tickEveryMs}ms` }] },
  },
};

/** Mostly quick ones, some that fail at first, and some that last. */
export function plainWish(random: Random): Wish {
  const kind = random();
  if (kind < 0.1) return { fail_before: 2 };
  if (kind < 0.25) return { sleep_ms: between(random, 100, 500) };
  return {};
}

/** The same among runs of a pipeline, and jobs and runs with a dedupe key; `breadth` is for longer blocks. */
export function makeMixedWishes(prefix = 'key', breadth = 1): (random: Random) => Wish {
  let keyed = 0;
  const nextKey = (): string => `${prefix}-${Math.floor((keyed += 1) / KEY_ASKED)}`;
  return (random) => {
    const kind = random();
    if (kind < 0.08) return { items: between(random, 1, 6 * breadth) };
    if (kind < 0.14) return { items: between(random, 1, 3 * breadth), dedupe: nextKey() };
    if (kind < 0.35) return { dedupe: nextKey() };
    return plainWish(random);
  };
}
