import { expect, test } from 'vitest';
import { toExplanation } from '../../src/insight/why/explanation.ts';

const subject = { kind: 'finding', id: 'schedules:x', state: 'warning' } as const;

test.each([
  ['plugins.feed.schedules[0] never fires', 'plugins.feed.schedules[0] never fires.'],
  ['service.max_workers is 1', 'service.max_workers is 1.'],
  ['the plugin is disabled', 'The plugin is disabled.'],
])(
  'the verdict of "%s" is a sentence that leaves configuration keys as they are',
  (fact, verdict) => {
    const cause = { fact, evidence: 'config.yaml:1' };
    expect(toExplanation(subject, [cause], [], []).verdict).toBe(verdict);
  },
);
