import type { Job } from '../../src/job/job.ts';
import type { ClaimedJob } from '../../src/job/types.ts';

const at = '2030-01-01T00:00:00.000Z';

export function makeClaimedJob(more: Partial<ClaimedJob> = {}): ClaimedJob {
  const { id = 'job-1' } = more;
  return { ...makeRunning(id), claimToken: 'token', startedAt: at, ...companions, ...more };
}

const companions = { state: '{}', context: '{}', queueMs: 7 };

function makeRunning(id: string): Job {
  return {
    seq: 1,
    id,
    plugin: 'worker',
    command: 'poll',
    payload: '{}',
    status: 'running',
    attempt: 1,
    maxAttempts: 4,
    retryCount: 0,
    crashCount: 0,
    interruptCount: 0,
    suspect: false,
    submittedBy: 'api',
    actor: 'test',
    dedupeKey: null,
    dedupeTtlMs: null,
    dependencyKey: null,
    createdAt: at,
    readyAt: at,
    startedAt: at,
    completedAt: null,
    nextRetryAt: null,
    lastError: null,
    reason: null,
    parentJobId: null,
    sourceEventId: null,
    rootJobId: id,
    retryOf: null,
    idempotencyKey: id,
    hops: 0,
    runtimeCaused: false,
    eventContextId: null,
    scheduleId: null,
    scheduleSlot: null,
    claimToken: 'token',
    claimedBy: 'process-1',
    claimExpiresAt: at,
    cancelRequestedAt: null,
    configSnapshotId: null,
    initFor: null,
    runId: null,
    branchId: null,
    stepId: null,
    baseKey: null,
    timeoutMs: null,
    backoffMs: null,
    awaitedBy: null,
  };
}
