/** Why schedules, webhooks, deliveries and signals do what they do, with plain data. */
import { describe, expect, test } from 'vitest';
import type { Job } from '../../src/job/job.ts';
import type { ScheduleRow } from '../../src/schedule/types.ts';
import type { DeliveryRow, WebhookRow } from '../../src/webhook/types.ts';
import {
  explainDelivery,
  type DeliveryFacts,
  explainWebhook,
  type WebhookFacts,
} from '../../src/insight/why/webhook.ts';
import { explainSignal, type SignalFacts } from '../../src/insight/why/signal.ts';
import type { ScheduleFacts } from '../../src/insight/why/schedule-holds.ts';
import { explainSchedule } from '../../src/insight/why/schedule.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';
import { at, hookSignal, later, plugin, queued, run, service } from './why-texts.ts';

const schedule: ScheduleRow = {
  plugin: 'worker',
  scheduleId: 'nightly',
  command: 'poll',
  mode: 'cron',
  timing: '0 3 * * *',
  timezone: 'UTC',
  generation: 'g',
  seq: 3,
  status: 'active',
  reason: null,
  nextSlotAt: later,
  nextDueAt: later,
  firstSeenAt: at,
  lastFiredAt: null,
  lastJobId: null,
  lastJobStatus: null,
  lastSkippedAt: null,
  lastSkipReason: null,
  skippedInRow: 0,
};

describe('a schedule', () => {
  const explain = ({
    row,
    ...more
  }: Partial<Omit<ScheduleFacts, 'row'>> & { row?: Partial<ScheduleRow> }) =>
    explainSchedule({
      row: { ...schedule, ...row },
      now: at,
      service,
      plugin,
      isDefinedElsewhere: false,
      ...more,
    });

  test('that is due later says when', () => {
    const explanation = explain({});
    expect(explanation).toMatchObject({
      id: 'worker/nightly',
      verdict: 'It is not due yet.',
      moves_at: later,
    });
  });

  test('that is paused names the actor and how it continues', () => {
    const explanation = explain({ row: { status: 'paused' }, pausedBy: { actor: 'cli:ann', at } });
    expect(explanation.chain[0]).toEqual({
      fact: 'The schedule worker/nightly is paused: it starts no jobs',
      evidence: `cli:ann at ${at}`,
      at,
    });
    expect(explanation.commands[0]).toBe('ductile schedule resume worker nightly');
  });

  test('whose breaker is open says until when', () => {
    const breaker = {
      plugin: 'worker',
      command: 'poll',
      state: 'open',
      failureCount: 3,
      threshold: 3,
      openedAt: at,
      resetAfterMs: 3_600_000,
      probeJobId: null,
      lastFailureAt: at,
      lastJobId: null,
      updatedAt: at,
    } as const;
    const explanation = explain({ breaker });
    expect(explanation.moves_at).toBe(later);
    expect(explanation.commands[0]).toBe('ductile breaker reset worker --command poll');
  });

  test('explains why the last slot was skipped, and that intervals count from the end of a job', () => {
    const row = { mode: 'every', lastSkippedAt: at, lastSkipReason: 'quiet_hours' } as const;
    const explanation = explain({ row, lastJob: makeClaimedJob() });
    expect(explanation.verdict).toMatch(/counts from the end of its last job/);
    expect(explanation.chain.map(({ fact }) => fact)).toContain(
      'a due time passed without a job: it was in its quiet hours',
    );
  });

  test.each([
    ['exhausted', /due only once/],
    ['retired', /no longer in the configuration/],
    ['invalid', /never fires: no such day/],
  ] as const)('that is %s says so', (status, verdict) => {
    expect(explain({ row: { status, reason: 'no such day' } }).verdict).toMatch(verdict);
  });
});

const hook: WebhookRow = {
  id: 'deploys',
  settings: '{"title":"Deploys"}',
  sealed: null,
  createdBy: 'cli:ann',
  createdAt: at,
  updatedBy: 'cli:bob',
  updatedAt: at,
  triggerCount: 1,
  lastTriggeredAt: null,
  lastError: null,
};

const delivery: DeliveryRow = {
  id: 'delivery-1',
  webhookId: 'deploys',
  deliveryId: null,
  replayKey: null,
  source: '10.0.0.1',
  headers: '[]',
  bodyBytes: 2,
  seq: 1,
  verdict: 'refused',
  reason: 'bad_signature',
  signalId: null,
  duplicates: 0,
  receivedAt: at,
  testBy: null,
};

describe('a webhook', () => {
  const explain = (more: Partial<WebhookFacts>) =>
    explainWebhook({
      row: hook,
      isEnabled: true,
      hasListener: true,
      ratePerMinute: 600,
      refusedCount: 0,
      service,
      missing: undefined,
      deliveries: [],
      jobs: [],
      runs: [],
      outcome: undefined,
      ...more,
    });
  test.each<[string, Partial<WebhookFacts>, RegExp, string]>([
    ['is disabled', { isEnabled: false }, /disabled/, 'webhook edit deploys --enabled'],
    [
      'has no target',
      { missing: 'there is no plugin x' },
      /refuses every delivery: there is no plugin x/,
      'webhook show deploys',
    ],
    ['is not heard', { hasListener: false }, /nothing listens/i, 'config set webhooks.listen='],
    ['takes nothing', { ratePerMinute: 0 }, /limit is 0/, '--rate-limit-per-minute 600'],
    [
      'was sent too much',
      { refusedCount: 3 },
      /3 deliveries exceeded its rate limit/,
      'edit deploys --rate-limit-per-minute 1200',
    ],
    ['was never used', {}, /no deliveries are recorded/i, 'webhook test deploys'],
    ['refused', { deliveries: [delivery] }, /refused \(bad_signature\)/, 'webhook rotate deploys'],
    [
      'failed',
      { deliveries: [{ ...delivery, verdict: 'failed' }] },
      /last delivery: failed/,
      'webhook replay delivery-1',
    ],
    [
      'accepted',
      { deliveries: [{ ...delivery, verdict: 'accepted', reason: null, signalId: 'signal-1' }] },
      /last delivery: accepted/,
      'ductile why signal-1',
    ],
  ])('%s', (_, facts, verdict, command) => {
    const explanation = explain(facts);
    expect(explanation.verdict).toMatch(verdict);
    expect(explanation.commands.join('\n')).toContain(command);
    expect(explanation.chain.at(-1)?.fact).toBe('cli:ann created it');
  });

  const taken: DeliveryRow = {
    ...delivery,
    verdict: 'accepted',
    reason: null,
    signalId: 'signal-1',
  };
  const ended = (id: string, status: Job['status'], more: Partial<Job> = {}): Job => ({
    ...queued,
    id,
    status,
    ...more,
  });

  test.each<[string, Partial<WebhookFacts>, string, string]>([
    [
      'is dead',
      { jobs: [ended('job-2', 'dead')] },
      'worker poll is dead',
      'ductile why job-2\nductile webhook replay delivery-1\n',
    ],
    [
      'succeeded when it was replayed',
      { jobs: [ended('job-3', 'succeeded'), ended('job-2', 'dead')] },
      'worker poll has succeeded',
      'ductile why signal-1\nductile webhook test',
    ],
    [
      'is one of two and failed',
      { jobs: [ended('job-3', 'succeeded'), ended('job-2', 'failed', { command: 'other' })] },
      'worker other has failed, worker poll has succeeded',
      'ductile why job-2\n',
    ],
    [
      'is a step of a run that halted',
      {
        jobs: [ended('job-2', 'succeeded', { runId: 'run-1' })],
        runs: [{ ...run, status: 'halted' }],
      },
      'pipeline digest has halted',
      'ductile why run-1\n',
    ],
    ['is gone', {}, 'no work that it started is recorded', 'ductile why signal-1'],
  ])('says that what it started %s', (_, facts, comesTo, commands) => {
    const explanation = explain({ deliveries: [taken], ...facts });
    expect(explanation.verdict).toBe(`The last delivery: accepted, from 10.0.0.1; ${comesTo}.`);
    expect(explanation.commands.join('\n')).toContain(commands);
  });

  test.each([
    ['error:timeout', 'its agent: error:timeout (slow)'],
    ['success', 'its agent: success'],
    ['pending', 'its agent: pending'],
  ])('whose agent came to %s says so', (status, comesTo) => {
    const isBad = status.startsWith('error');
    const outcome = { status, error: isBad ? status : null, detail: isBad ? 'slow' : null };
    const jobs = [ended('job-2', isBad ? 'dead' : 'succeeded')];
    const explanation = explain({ deliveries: [taken], jobs, outcome });
    expect(explanation.verdict).toBe(`The last delivery: accepted, from 10.0.0.1; ${comesTo}.`);
    expect(explanation.commands[0]).toBe(isBad ? 'ductile why job-2' : 'ductile why signal-1');
  });

  test('lists each delivery once', () => {
    const explanation = explain({ deliveries: [delivery, { ...delivery, id: 'delivery-0' }] });
    expect(explanation.chain.filter(({ fact }) => fact.includes('refused'))).toHaveLength(2);
  });
});

describe('a delivery', () => {
  const taken = { ...delivery, verdict: 'accepted', reason: null, signalId: 'signal-1' } as const;
  const explain = (more: Partial<DeliveryFacts>) =>
    explainDelivery({
      delivery: taken,
      hasWebhook: true,
      isReplayable: true,
      jobs: [],
      runs: [],
      ...more,
    });

  test('that was refused says why, and where to look', () => {
    const explanation = explain({ delivery });
    expect(explanation).toMatchObject({ kind: 'delivery', id: 'delivery-1', state: 'refused' });
    expect(explanation.verdict).toBe('It was refused (bad_signature), from 10.0.0.1.');
    expect(explanation.chain.at(-1)?.fact).toBe('it was sent to the webhook deploys');
    expect(explanation.commands).toEqual([
      'ductile webhook show deploys',
      'ductile webhook delivery delivery-1',
    ]);
    expect(explain({ delivery, hasWebhook: false }).commands).toEqual([
      'ductile webhook delivery delivery-1',
    ]);
  });

  test('that was accepted names what it started', () => {
    const explanation = explain({ jobs: [queued], runs: [run] });
    expect(explanation.chain.map(({ evidence }) => evidence)).toEqual([
      'signal signal-1',
      `job ${queued.id}`,
      'run run-1',
      '/hooks/deploys',
    ]);
    expect(explanation.commands).toEqual([
      `ductile why ${queued.id}`,
      'ductile why run-1',
      'ductile webhook replay delivery-1',
      'ductile webhook delivery delivery-1',
    ]);
  });

  test('that started nothing leads to its signal', () => {
    expect(explain({}).commands[0]).toBe('ductile why signal-1');
  });
});

describe('a signal', () => {
  const explain = (more: Partial<SignalFacts>) =>
    explainSignal({
      signal: hookSignal,
      links: [{ kind: 'signal', signal: hookSignal }],
      jobs: [],
      runs: [],
      hopsMax: 32,
      isRuntimeCaused: false,
      handlers: [],
      refusals: [],
      ...more,
    });

  test('that started something says what, and that the same again starts nothing', () => {
    const explanation = explain({ jobs: [queued], runs: [run] });
    expect(explanation).toMatchObject({ state: 'handled', verdict: 'It started 1 job and 1 run.' });
    expect(explanation.chain.map(({ fact }) => fact)).toContain('a duplicate of it starts nothing');
    // A replay of the signal would not do again what the webhook itself started.
    const seen = ['ductile why job-9', 'ductile why run-1'];
    expect(explanation.commands).toEqual([...seen, 'ductile webhook deliveries deploys']);
    const reported = { ...hookSignal, type: 'order.paid', source: 'shop' };
    expect(explain({ signal: reported, jobs: [queued], runs: [run] }).commands).toEqual([
      ...seen,
      'ductile signal replay signal-1',
    ]);
  });

  test.each([
    ['succeeded', 'worker poll has succeeded'],
    ['timed_out', 'worker poll has timed out'],
    ['cancelled', 'worker poll was cancelled'],
    ['dead', 'worker poll is dead'],
  ] as const)('whose job is %s says it as a person would', (status, fact) => {
    const explanation = explain({ jobs: [{ ...queued, status }] });
    expect(explanation.chain.map((link) => link.fact)).toContain(fact);
  });

  test('with a chosen correlation puts nothing into a command', () => {
    const signal = { ...hookSignal, hops: 9, correlationId: 'x; rm -rf ~' };
    expect(explain({ signal, hopsMax: 1 }).commands[0]).toBe(
      "ductile signal list --correlation-id 'x; rm -rf ~'",
    );
  });

  test.each<[string, Partial<SignalFacts>, RegExp]>([
    ['nobody wants', {}, /no route or pipeline handles webhook.received from webhook:deploys/i],
    ['came too late in its chain', { hopsMax: 0 }, /chain is too long/],
    ['something wants by now', { handlers: ['a route to x'] }, /the current configuration would/],
    [
      'was held back by the dedupe key of its event',
      {
        handlers: ['a route to x'],
        signal: { ...hookSignal, metadata: '{"schema_version":1,"dedupe_key":"k1"}' },
      },
      /work with its dedupe key k1 was probably done or in progress/,
    ],
    [
      'a pipeline did not want',
      { refusals: [{ pipeline: 'big', reason: 'payload.size > 3 does not hold' }] },
      /no pipeline for webhook.received accepted it/i,
    ],
    [
      'is an alarm about an alarm',
      { isRuntimeCaused: true, signal: { ...hookSignal, source: 'ductile' } },
      /not handled/,
    ],
  ])('that %s', (_, facts, verdict) => {
    expect(explain(facts)).toMatchObject({ state: 'unhandled' });
    expect(explain(facts).verdict).toMatch(verdict);
  });
});
