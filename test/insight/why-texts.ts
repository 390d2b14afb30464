/** Facts of a sound service, for the tests of why. */
import type { Job } from '../../src/job/job.ts';
import type { RunningJob } from '../../src/job/types.ts';
import type { Run } from '../../src/pipeline/run/run.ts';
import type { Signal } from '../../src/signal/signal.ts';
import { explainJob } from '../../src/insight/why/job.ts';
import type { PluginFacts, WaitFacts, ServiceFacts } from '../../src/insight/why/facts.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';

export const at = '2030-01-01T00:00:00.000Z';
export const later = '2030-01-01T01:00:00.000Z';

export const service: ServiceFacts = {
  hosts: [{ id: 'process-1', host: 'here', slots: 4 }],
  trouble: undefined,
  paused: undefined,
  tenant: undefined,
};

export const plugin: PluginFacts = {
  name: 'worker',
  state: 'loaded',
  isKnown: true,
  holds: [],
  init: undefined,
  parallelism: undefined,
  runnerGraceMs: 60_000,
};

export const queued: Job = {
  ...makeClaimedJob({ id: 'job-9' }),
  status: 'queued',
  claimToken: null,
};

export function holder(id: string, more: Partial<RunningJob> = {}): RunningJob {
  return { ...makeClaimedJob({ id }), claimExpiresAt: later, ...more };
}

export const hookSignal: Signal = {
  seq: 4,
  id: 'signal-1',
  type: 'webhook.received',
  source: 'webhook:deploys',
  subjectType: null,
  subjectId: null,
  data: '{}',
  metadata: '{}',
  hops: 1,
  correlationId: 'signal-1',
  causationId: null,
  visibility: 'internal',
  jobId: null,
  jobAttempt: null,
  eventIndex: null,
  dedupeKey: null,
  sourceEventId: 'evt_1',
  occurredAt: at,
  insertedAt: at,
};

export const run: Run = {
  seq: 1,
  id: 'run-1',
  pipeline: 'digest',
  definitionHash: 'h',
  status: 'running',
  payload: '{}',
  output: null,
  haltReason: null,
  haltMessage: null,
  haltedAtStep: null,
  submittedBy: 'api',
  actor: 'test',
  sourceEventId: null,
  parentJobId: null,
  rootJobId: 'job-1',
  lineage: 'run-1',
  hops: 0,
  runtimeCaused: false,
  eventContextId: null,
  concurrencyKey: null,
  dueAt: null,
  dedupeKey: null,
  revivedFrom: null,
  awaitedBy: null,
  createdAt: at,
  startedAt: at,
  completedAt: null,
};

/** Returns the blockers of a queued job in an otherwise healthy service. */
export interface Waiting {
  readonly job?: Partial<Job>;
  readonly service?: Partial<ServiceFacts>;
  readonly plugin?: Partial<PluginFacts>;
  readonly running?: readonly RunningJob[];
  readonly ahead?: number;
  readonly holder?: WaitFacts['holder'];
  readonly now?: string;
  readonly usual?: WaitFacts['usual'];
}

export function waitingFor(more: Waiting = {}) {
  const job = { ...queued, ...more.job };
  const waits: WaitFacts = {
    job,
    service: { ...service, ...more.service },
    plugin: { ...plugin, ...more.plugin },
    queue: { running: more.running ?? [], ahead: more.ahead ?? 0 },
    holder: more.holder,
    now: more.now ?? at,
    usual: more.usual,
  };
  return explainJob({ job, links: [{ kind: 'job', job }], attempts: [], waits });
}
