import { fromTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { compact, type Json, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { ReplayChoice } from './replay.ts';
import type { JobDraft } from '../job/job.ts';
import type { Ledger, LedgerSubset } from '../ledger/ledger.ts';
import type { Emission, Followers, RunDraft } from '../pipeline/run/types.ts';
import type { ReplayProgress } from './replay.sql.ts';
import {
  deliveryEventIn,
  toEventBaggage,
  RUNTIME_SOURCE,
  type Signal,
  type SignalFilter,
} from './signal.ts';
import { findChildHops } from '../job/enqueue.service.ts';
import type { DirectiveExecution } from '../directive/define.service.ts';
import { followSignal, withBaggage } from '../pipeline/follow-signal.ts';
import type { Generation } from '../engine/generation.ts';
import { isMasked } from './mask.ts';
import type { Vault } from '../access/vault.ts';
import { purposes, type SealedText } from '../base/seal.ts';
import type { LedgerContext } from '../engine/context.ts';

/**
 * Replays signals from the oldest to the one that was the newest at the start, in steps. Each step
 * commits its progress, so a replay that was interrupted continues there and starts nothing twice.
 */
export async function replaySignals(
  context: LedgerContext,
  choice: ReplayChoice,
  request: DirectiveExecution,
): Promise<JsonObject> {
  const { ledger, vault, processId, quota, commits } = context;
  let progress = await readProgress(ledger, choice, request);
  const hopsLeast = await findChildHops(request.actor, ledger);
  while (progress.signals < choice.limit) {
    if (request.signal.aborted) {
      throw new DuctileError('STOPPING', `stopped after ${progress.signals} signals`);
    }
    const signals = await ledger.signals.list({
      ...replayFilterOf(choice),
      order: 'oldest',
      beforeSeq: progress.cursor,
      upToSeq: progress.upTo,
      bytesMax: limits.replayStepBytes,
      limit: Math.min(limits.bulkStepJobs, choice.limit - progress.signals),
    });
    const last = signals.at(-1);
    if (last === undefined) break;
    const opened = await openSignals(signals, choice, { ledger, vault });
    const followed = opened.map((one) =>
      followAgain({ ...one, hopsLeast }, choice, request, context.generation),
    );
    const step = {
      directiveId: request.directiveId,
      processId,
      force: choice.force,
      before: progress,
      cursor: last.seq,
      signals: signals.length,
      unhandled: followed.filter(({ jobs, runs }) => jobs.length + runs.length === 0).length,
      unopened: signals.length - opened.length,
      jobs: followed.flatMap(({ jobs }) => jobs),
      runs: followed.flatMap(({ runs }) => runs),
      contexts: followed.flatMap(({ contexts = [] }) => contexts),
    };
    const load = { jobs: step.jobs.length + step.runs.length, signals: 0 };
    const done = await quota.within(load, () => ledger.signals.replay(step));
    // Another process has taken over the directive, because this process seemed dead.
    if (done === undefined)
      throw new DuctileError('STOPPING', 'another process continues the replay');
    commits.publish(done.events);
    progress = done.progress;
  }
  const { signals, jobs, runs, skipped, unhandled, unopened } = progress;
  return { signals, jobs, runs, skipped, unhandled, unopened };
}

/** Reads the progress of an interrupted or resumed replay. A new one starts before the first signal. */
async function readProgress(
  ledger: Ledger,
  { resume }: ReplayChoice,
  { progress }: DirectiveExecution,
): Promise<ReplayProgress> {
  if (progress !== null) return progress as unknown as ReplayProgress;
  const { progress: reached = null } =
    (resume === undefined ? undefined : await ledger.directives.find(resume)) ?? {};
  if (reached !== null) return parseJson(reached) as ReplayProgress;
  const [newest] = await ledger.signals.list({ limit: 1 });
  const nothing = { signals: 0, jobs: 0, runs: 0, skipped: 0, unhandled: 0, unopened: 0 };
  return { cursor: 0, upTo: newest?.seq ?? 0, ...nothing };
}

/** A signal with its original payload. */
interface OpenedSignal {
  readonly signal: Signal;
  /** The whole payload, even if the signal shows it masked. */
  readonly payload: Json;
}

/** Opens payloads, and skips signals whose payload can't be opened. Throws if one was named by id. */
async function openSignals(
  signals: readonly Signal[],
  { signal_id: wanted }: ReplayChoice,
  { ledger, vault }: Pick<LedgerContext, 'ledger' | 'vault'>,
): Promise<OpenedSignal[]> {
  const exact = await openPayloads(signals, ledger, vault);
  return signals.flatMap((signal, index): OpenedSignal[] => {
    const one = exact[index];
    if (one === undefined || 'refused' in one) {
      if (wanted !== undefined && one !== undefined) throw one.refused;
      return [];
    }
    return [{ signal, payload: one.payload }];
  });
}

/** The original payload of a signal, or the reason why it can't be opened. */
export type OpenedPayload = { readonly payload: Json } | { readonly refused: DuctileError };

/** Reads the original payloads of signals for a replay, in the same order. */
export async function openPayloads(
  signals: readonly Signal[],
  ledger: LedgerSubset<'signals.listSealedPayloads'>,
  vault: Pick<Vault, 'open'>,
): Promise<OpenedPayload[]> {
  const masked = signals.filter(({ metadata }) => isMasked(metadata)).map(({ id }) => id);
  const rows = masked.length === 0 ? [] : await ledger.signals.listSealedPayloads(masked);
  const sealedOf = new Map(rows.map(({ signalId, sealed }) => [signalId, sealed]));
  return signals.map((signal) =>
    isMasked(signal.metadata)
      ? openOne(signal.id, sealedOf.get(signal.id), vault)
      : { payload: parseJson(signal.data) as Json },
  );
}

function openOne(
  id: string,
  sealed: SealedText | undefined,
  vault: Pick<Vault, 'open'>,
): OpenedPayload {
  try {
    if (sealed === undefined) throw unsealed(id);
    return { payload: parseJson(vault.open(sealed, purposes.payload(id))) as Json };
  } catch (error) {
    if (error instanceof DuctileError) return { refused: error };
    throw error;
  }
}

function unsealed(id: string): DuctileError {
  const message = `signal ${id} was masked, and its original data was not stored`;
  return new DuctileError('SIGNAL_MASKED', message, { place: id });
}

function followAgain(
  { signal, payload, hopsLeast }: OpenedSignal & { readonly hopsLeast: number },
  { handler }: ReplayChoice,
  { actor, directiveId }: DirectiveExecution,
  { rules }: Generation,
): Followers & Pick<Emission, 'contexts'> {
  const { id, type, source, metadata } = signal;
  const hops = Math.max(signal.hops, hopsLeast);
  if (hops > rules.hopsMax) return { jobs: [], runs: [] };
  const draft = { id, type, source, hops, metadata };
  const context = toEventBaggage(deliveryEventIn(draft));
  const followed = followSignal(draft, { payload, context }, rules, {
    submittedBy: 'replay',
    actor,
    runtimeCaused: source === RUNTIME_SOURCE,
    key: `replay:${directiveId}:${id}`,
    atMs: fromTimestamp(signal.occurredAt),
  });
  if (handler === undefined) return withBaggage(followed, context);
  const { jobs, runs } = followed;
  const chosen = {
    jobs: jobs.filter((job) => isHandler(handler, job)),
    runs: runs.filter((run) => isPipeline(handler, run)),
  };
  return withBaggage(chosen, context);
}

export const PIPELINE = 'pipeline:';

/** Returns whether a name such as `mail` or `mail.handle` means this handler. */
export function isHandler(
  handler: string,
  { plugin, command }: Pick<JobDraft, 'plugin' | 'command'>,
): boolean {
  return handler === plugin || handler === `${plugin}.${command}`;
}

export function isPipeline(handler: string, { pipeline }: Pick<RunDraft, 'pipeline'>): boolean {
  return handler === `${PIPELINE}${pipeline}`;
}

export function replayFilterOf(choice: ReplayChoice): Omit<SignalFilter, 'limit'> {
  const { signal_id: id, type, source, from, to } = choice;
  return {
    ...compact({ id, type, source, from, to }),
  };
}
