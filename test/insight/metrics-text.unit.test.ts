/** The text that monitors read: names and labels are escaped. */
import { expect, test } from 'vitest';
import { makeMetrics, formatMetrics } from '../../src/insight/metrics.service.ts';
import { createBareReport } from '../../src/job/attempt.ts';
import { endAsSucceeded } from '../../src/job/outcome.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';

function closing(plugin: string, runMs: number | null): Closing {
  const job = makeClaimedJob({ plugin });
  return {
    job,
    claimToken: 'token',
    report: { ...createBareReport('succeeded', 'ok', ''), runMs, queueMs: 20 },
    ending: endAsSucceeded(job),
    signals: [],
    jobs: [],
  };
}

function valueOf(text: string, sample: string): number | undefined {
  const line = text.split('\n').find((one) => one.startsWith(`${sample} `));
  return line === undefined ? undefined : Number(line.slice(sample.length + 1));
}

test('counters and histograms add up', () => {
  const metrics = makeMetrics();
  metrics.countAttempts([closing('mail', 30), closing('mail', 3000), closing('echo', null)]);
  metrics.observeCommit(7);
  metrics.countDelivery(202);
  metrics.countDelivery(401);
  const text = formatMetrics(metrics.read());
  expect(valueOf(text, 'ductile_jobs_total{plugin="mail",status="succeeded"}')).toBe(2);
  expect(valueOf(text, 'ductile_attempt_phase_seconds_bucket{phase="run",le="0.05"}')).toBe(1);
  expect(valueOf(text, 'ductile_attempt_phase_seconds_bucket{phase="run",le="5"}')).toBe(2);
  expect(valueOf(text, 'ductile_attempt_phase_seconds_bucket{phase="run",le="+Inf"}')).toBe(2);
  expect(valueOf(text, 'ductile_attempt_phase_seconds_sum{phase="run"}')).toBeCloseTo(3.03);
  expect(valueOf(text, 'ductile_attempt_phase_seconds_count{phase="queue"}')).toBe(3);
  expect(valueOf(text, 'ductile_ledger_commit_seconds_count')).toBe(1);
  expect(valueOf(text, 'ductile_webhook_deliveries_total{verdict="refused"}')).toBe(1);
  expect(text.endsWith('\n')).toBe(true);
});

test('a hostile name stays in its label, and every line is one', () => {
  const text = formatMetrics([
    {
      name: 'x_total',
      type: 'counter',
      help: 'two\nlines',
      samples: [{ labels: { plugin: 'a"} 1\nevil_total 9\r\\' }, value: 1 }],
    },
  ]);
  expect(text.split('\n')).toEqual([
    String.raw`# HELP x_total two\nlines`,
    '# TYPE x_total counter',
    String.raw`x_total{plugin="a\"} 1\nevil_total 9 \\"} 1`,
    '',
  ]);
});

test('the number of samples is limited, even if new names keep coming', () => {
  const metrics = makeMetrics();
  for (let n = 0; n < 1000; n += 1) metrics.countAttempts([closing(`plugin-${n}`, 1)]);
  const [jobs] = metrics.read();
  expect(jobs?.samples).toHaveLength(201);
  expect(jobs?.samples.at(-1)).toMatchObject({ labels: { plugin: '_other' }, value: 800 });
});
