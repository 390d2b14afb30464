import { fromTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import type { Json, JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { ReplayChoice } from './replay-directives.ts';
import type { JobDraft } from '../job/job.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Followers, RunDraft, RunNews } from '../pipeline/run/types.ts';
import type { Emission, ReplayProgress, SignalFilter } from './types.ts';
import { deliveryEventIn, toEventBaggage, RUNTIME_SOURCE, type Signal } from './signal.ts';
import { hopsBehind } from '../job/cause.service.ts';
import type { Asked } from '../directive/define.service.ts';
import { followSignal, withBaggage } from '../pipeline/follow-signal.ts';
import type { Generation } from '../engine/generation.ts';
import { readExact } from './seal.service.ts';
import type { Quota } from '../tenant/admission.ts';
import type { Vault } from '../access/vault.ts';

export interface ReplaySeams {
  readonly ledger: Ledger;
  readonly vault: Pick<Vault, 'open'>;
  readonly processId: string;
  /** What a tenant may have waiting counts here as at any other door. */
  readonly within: Quota['within'];
  readonly current: () => Generation;
  /** Jobs were queued, or runs have begun. */
  readonly onNews: (news: RunNews) => void;
}

/**
 * From the oldest signal to what was the newest when it began, some at a time. Each step is one commit
 * with how far it came, so whoever begins it anew goes on there and starts nothing twice.
 */
export async function replay(
  { ledger, vault, processId, within, current, onNews }: ReplaySeams,
  choice: ReplayChoice,
  asked: Asked,
): Promise<JsonObject> {
  let progress = await beginAt(ledger, choice, asked);
  const hopsLeast = await hopsBehind(asked.actor, ledger);
  while (progress.signals < choice.limit) {
    if (asked.signal.aborted) {
      throw new DuctileError('STOPPING', `stopped after ${progress.signals} signals`);
    }
    const signals = await ledger.signals({
      ...replayFilterOf(choice),
      order: 'oldest',
      beforeSeq: progress.cursor,
      upToSeq: progress.upTo,
      bytesMax: limits.replayStepBytes,
      limit: Math.min(limits.bulkStepJobs, choice.limit - progress.signals),
    });
    const last = signals.at(-1);
    if (last === undefined) break;
    const told = await readTold(signals, choice, { ledger, vault });
    const followed = told.map((one) =>
      followAgain({ ...one, hopsLeast }, choice, asked, current()),
    );
    const step = {
      directiveId: asked.directiveId,
      processId,
      force: choice.force,
      before: progress,
      cursor: last.seq,
      signals: signals.length,
      unhandled: followed.filter(({ jobs, runs }) => jobs.length + runs.length === 0).length,
      unopened: signals.length - told.length,
      jobs: followed.flatMap(({ jobs }) => jobs),
      runs: followed.flatMap(({ runs }) => runs),
      contexts: followed.flatMap(({ contexts = [] }) => contexts),
    };
    const brings = { jobs: step.jobs.length + step.runs.length, signals: 0 };
    const done = await within(brings, () => ledger.replay(step));
    // Another process was to go on with it, because this one was believed to be dead.
    if (done === undefined) throw new DuctileError('STOPPING', 'another process goes on with it');
    onNews(done.news);
    progress = done.progress;
  }
  const { signals, jobs, runs, skipped, unhandled, unopened } = progress;
  return { signals, jobs, runs, skipped, unhandled, unopened };
}

async function beginAt(
  ledger: Ledger,
  { resume }: ReplayChoice,
  { progress }: Asked,
): Promise<ReplayProgress> {
  if (progress !== null) return progress as unknown as ReplayProgress;
  const { progress: reached = null } =
    (resume === undefined ? undefined : await ledger.directive(resume)) ?? {};
  if (reached !== null) return parseJson(reached) as ReplayProgress;
  const [newest] = await ledger.signals({ limit: 1 });
  const nothing = { signals: 0, jobs: 0, runs: 0, skipped: 0, unhandled: 0, unopened: 0 };
  return { cursor: 0, upTo: newest?.seq ?? 0, ...nothing };
}

interface Told {
  readonly signal: Signal;
  /** What it said, also where the ledger shows less. */
  readonly payload: Json;
}

/** Without those that cannot be told any more; who asked for exactly that one hears why. */
async function readTold(
  signals: readonly Signal[],
  { signal_id: wanted }: ReplayChoice,
  { ledger, vault }: Pick<ReplaySeams, 'ledger' | 'vault'>,
): Promise<Told[]> {
  const exact = await readExact(signals, ledger, vault);
  return signals.flatMap((signal, index): Told[] => {
    const one = exact[index];
    if (one === undefined || 'refused' in one) {
      if (wanted !== undefined && one !== undefined) throw one.refused;
      return [];
    }
    return [{ signal, payload: one.payload }];
  });
}

function followAgain(
  { signal, payload, hopsLeast }: Told & { readonly hopsLeast: number },
  { handler }: ReplayChoice,
  { actor, directiveId }: Asked,
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

/** Whether a name such as `mail` or `mail.handle` stands for this one. */
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
    ...(id === undefined ? {} : { id }),
    ...(type === undefined ? {} : { type }),
    ...(source === undefined ? {} : { source }),
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
  };
}
