import { DuctileError, toDuctileError } from '../base/errors.ts';
import { makeBatcher } from '../base/batch.ts';
import { makeId } from '../base/ids.ts';
import type { Ledger, LedgerSubset } from '../ledger/ledger.ts';
import type { DeliveryDraft, ToldDelivery } from './types.ts';
import { toAgentFailure } from './agent-outcome.ts';
import { draftEmission } from './draft.service.ts';
import { makeHookStore } from './store.service.ts';
import {
  createRejectedCounter,
  type FailedDelivery,
  type WebhookIntake,
  type AcceptedDelivery,
  type VerifiedDelivery,
} from './webhooks.ts';
import type { Generation } from '../engine/generation.ts';
import type { PayloadMask } from '../signal/mask.ts';
import { makeSealingMask } from '../signal/seal.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import { announceWork, findFirstDue } from '../job/enqueue.service.ts';

export function makeHookDoor(context: LedgerContext): WebhookIntake {
  const { ledger, vault, quota, commits } = context;
  const log = context.log.child('webhooks');
  const keep = makeSealingMask(vault, log);
  const receive = makeBatcher<DeliveryDraft, ToldDelivery>(async (drafts) => {
    announceWork(
      context,
      drafts.flatMap(({ emission: { jobs, runs } }) => [...jobs, ...runs]),
    );
    const { told, news } = await ledger.webhooks.accept(drafts, quota.queueLimit());
    const isNew = (_: DeliveryDraft, index: number): boolean => told[index]?.isNew === true;
    const fresh = drafts.filter(isNew);
    commits.publish({
      ...news,
      signals: fresh.map(({ emission }) => emission.signal),
      jobDueInMs: findFirstDue(fresh.flatMap(({ emission }) => emission.jobs)),
    });
    return told;
  });

  return {
    store: makeHookStore(context, log),
    rejected: createRejectedCounter(),
    async accept(verified) {
      context.requireAccepting();
      const drafted = await draftDelivery(verified, context.generation, keep).catch(
        (thrown: unknown) => noteFailed(toDuctileError(thrown), verified, ledger),
      );
      if ('error' in drafted) return drafted;
      const { jobs, runs } = drafted.emission;
      const asked = { jobs: jobs.length + runs.length, signals: 1, isCountedThere: true };
      const told = await quota.within(asked, () => receive(drafted));
      if (told.isOther === true) return await noteFailed(keyReused(), verified, ledger);
      if (told.isReplay === true) return { isReplay: true };
      const { signalId, isNew } = told;
      if (!isNew) {
        return { signalId, isNew, skipped: told.skipped, ...(await findFirst(signalId, ledger)) };
      }
      return { signalId, isNew, skipped: drafted.skipped, ...namesOf(verified.target, drafted) };
    },
    recordRefused(refused) {
      ledger.deliveries
        .recordRejected({ ...refused, id: makeId(), verdict: 'refused' })
        .catch((error: unknown) => log.warn('a refused delivery was not written down', { error }));
    },
  };
}

async function draftDelivery(
  verified: VerifiedDelivery,
  generation: Generation,
  keep: PayloadMask,
): Promise<DeliveryDraft> {
  const id = makeId();
  const {
    title,
    target,
    payload,
    event,
    about,
    traceparent,
    hops,
    jobId,
    isAwaited = false,
    test,
    ...rest
  } = verified;
  const { hookId, deliveryId } = rest;
  const sourceEventId = deliveryId ?? id;
  const what = { hookId, title, target, payload, event, about, traceparent };
  const from = hops === undefined ? {} : { hops };
  const delivered = { ...what, ...from, isAwaited, jobId, sourceEventId, test };
  return {
    id,
    ...rest,
    testBy: test?.actor,
    ...(await draftEmission(delivered, generation, keep)),
  };
}

/** The job or the run that a new delivery is for. */
function namesOf(
  { kind }: VerifiedDelivery['target'],
  { emission: { jobs, runs }, skipped }: DeliveryDraft,
): Pick<AcceptedDelivery, 'jobId' | 'runId'> {
  const isJob = skipped === undefined && (kind === 'command' || kind === 'agent');
  const isRun = skipped === undefined && kind === 'pipeline';
  return { jobId: isJob ? jobs[0]?.id : undefined, runId: isRun ? runs[0]?.id : undefined };
}

/** The job or run of the first delivery with this signal; the newest one after a retry or replay. */
async function findFirst(
  signalId: string,
  ledger: LedgerSubset<'deliveries.listTargets' | 'deliveries.listAgentJobs'>,
): Promise<Pick<AcceptedDelivery, 'jobId' | 'runId' | 'status'>> {
  const target = (await ledger.deliveries.listTargets([signalId])).at(-1);
  if (target?.kind === 'run') return { jobId: undefined, runId: target.id, status: target.status };
  const agentJobs = target === undefined ? await ledger.deliveries.listAgentJobs([signalId]) : [];
  const [first] = agentJobs;
  const job =
    target ?? agentJobs.findLast(({ idempotencyKey: key }) => key === first?.idempotencyKey);
  return { jobId: job?.id, runId: undefined, status: job?.status };
}

function keyReused(): DuctileError {
  const message = 'another body came with this Idempotency-Key before';
  return new DuctileError('IDEMPOTENCY_MISMATCH', message, { place: 'idempotency-key' });
}

/** What its target cannot take; what is wrong with this process is thrown on. */
async function noteFailed(
  error: DuctileError,
  { hookId, target, deliveryId, source, headers, bodyBytes, test }: VerifiedDelivery,
  ledger: Ledger,
): Promise<FailedDelivery> {
  if (error.code === 'INTERNAL') throw error;
  const about = { hookId, deliveryId, source, headers, bodyBytes, testBy: test?.actor };
  const reason = target.kind === 'agent' ? toAgentFailure(error.message) : error.message;
  await ledger.deliveries.recordRejected({ ...about, id: makeId(), verdict: 'failed', reason });
  return { error };
}
