/** The list of checks: ranked findings, and a check that fails hides nothing. */
import { expect, test } from 'vitest';
import { rankFindings, type LiveFinding } from '../../src/insight/finding.ts';

const finding = (more: Partial<LiveFinding>): LiveFinding => ({
  kind: 'job_dead',
  key: 'mail/handle',
  severity: 'error',
  category: 'jobs',
  message: 'A job is dead.',
  evidence: 'job 1',
  fix: 'Retry it.',
  commands: [],
  ...more,
});

test('findings are ranked by severity, then by what they stop, then by age', () => {
  const ranked = rankFindings([
    finding({ key: 'note', severity: 'info', impact: 'everything' }),
    finding({ key: 'young', since: '2030-01-02T00:00:00.000Z' }),
    finding({ key: 'single', impact: 'item', since: '2020-01-01T00:00:00.000Z' }),
    finding({ key: 'warn', severity: 'warning' }),
    finding({ key: 'ageless' }),
    finding({ key: 'old', since: '2030-01-01T00:00:00.000Z' }),
    finding({ key: 'all', impact: 'everything' }),
  ]);
  expect(ranked.map(({ key }) => key)).toEqual([
    'all',
    'old',
    'young',
    'ageless',
    'single',
    'warn',
    'note',
  ]);
});
