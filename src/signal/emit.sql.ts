import type { SignalDraft } from './signal.ts';
import type { Transaction } from '../ledger/dialect.ts';
import { mergeRunEvents, noRunEvents } from '../pipeline/run/changes.ts';
import type { Emission, Followers, RunCommitEvents } from '../pipeline/run/types.ts';
import { enqueueJobs, insertContexts } from '../job/enqueue.sql.ts';
import { text } from '../ledger/row.ts';
import { createRuns } from '../pipeline/run/advance.sql.ts';
import { insertAndWake, insertNewSignals } from './signal.sql.ts';

export interface EmissionResult {
  /** A result per emission, in the same order. */
  readonly recorded: readonly RecordedSignal[];
  readonly events: RunCommitEvents;
}

export interface RecordedSignal {
  readonly signalId: string;
  /** False if the signal was reported before. */
  readonly created: boolean;
}

/** Inserts the signals that are new, with what they start, in one transaction. */
export async function insertEmissions(
  tx: Transaction,
  emissions: readonly Emission[],
): Promise<EmissionResult> {
  const signals = emissions.map(({ signal }) => signal);
  if (!tx.isRetry && emissions.every(isPlain)) return await record(tx, signals);
  const { added, areAwaited } = await insertNewSignals(tx, signals);
  const start = async (fresh: readonly Emission[]): Promise<RunCommitEvents> => {
    const begun = await startAll(tx, fresh);
    return { ...begun, advancing: begun.advancing || areAwaited };
  };
  if (added.length === signals.length) {
    return { recorded: signals.map(asNew), events: await start(emissions) };
  }
  const ids = new Set(added.map(({ id }) => id));
  const events = await start(emissions.filter(({ signal }) => ids.has(signal.id)));
  const recorded: RecordedSignal[] = [];
  for (const signal of signals) {
    recorded.push(ids.has(signal.id) ? asNew(signal) : await findEarlier(tx, signal));
  }
  const again = emissions.flatMap((emission, index) => handleAgain(emission, recorded[index]));
  const all = again.length === 0 ? events : mergeRunEvents([events, await startAll(tx, again)]);
  // An earlier try may have started something before its response was lost, so wake the services.
  return { recorded, events: tx.isRetry ? { ...all, advancing: true, queued: true } : all };
}

/**
 * Returns the handlers of a signal that was reported before, if a rerun was requested. They run
 * like a replay.
 */
function handleAgain(emission: Emission, recorded: RecordedSignal | undefined): EmissionWork[] {
  const { rerun, jobs, runs, contexts = [] } = emission;
  if (rerun !== true || recorded === undefined || recorded.created) return [];
  const mark = { sourceEventId: recorded.signalId, submittedBy: 'replay' } as const;
  return [
    {
      jobs: jobs.map((job) => ({ ...job, ...mark })),
      runs: runs.map((run) => ({ ...run, ...mark })),
      contexts,
    },
  ];
}

/** Returns whether a signal can't have been reported before and starts nothing. */
function isPlain({ signal, jobs, runs }: Emission): boolean {
  const isKeyed = signal.dedupeKey !== undefined || signal.sourceEventId !== undefined;
  return !isKeyed && jobs.length + runs.length === 0;
}

/** The result isn't needed before the commit, so both are sent together. */
async function record(tx: Transaction, signals: readonly SignalDraft[]): Promise<EmissionResult> {
  const awaited = insertAndWake(tx, signals);
  tx.finish();
  return { recorded: signals.map(asNew), events: { ...noRunEvents, advancing: await awaited } };
}

type EmissionWork = Followers & Pick<Emission, 'contexts'>;

async function startAll(
  tx: Transaction,
  followers: readonly EmissionWork[],
): Promise<RunCommitEvents> {
  insertContexts(
    tx,
    followers.flatMap(({ contexts = [] }) => contexts),
  );
  const jobs = followers.flatMap((one) => one.jobs);
  if (jobs.length > 0) await enqueueJobs(tx, { jobs });
  const runs = followers.flatMap((one) => one.runs);
  const events = runs.length === 0 ? noRunEvents : (await createRuns(tx, runs)).events;
  return { ...events, queued: events.queued || jobs.length > 0 };
}

function asNew({ id }: SignalDraft): RecordedSignal {
  return { signalId: id, created: true };
}

/**
 * Finds the signal that was reported before. With the same id, it is this signal after a lost
 * response.
 */
async function findEarlier(tx: Transaction, signal: SignalDraft): Promise<RecordedSignal> {
  const { id, source, dedupeKey, sourceEventId } = signal;
  const table = tx.dialect.table('signals');
  const [row] = await tx.run(
    `select id from ${table} where id = ?
      union all select id from ${table} where source = ? and dedupe_key = ? and dedupe_key is not null
      union all select id from ${table} where source = ? and source_event_id = ?
        and source_event_id is not null limit 1`,
    [id, source, dedupeKey ?? null, source, sourceEventId ?? null],
  );
  if (row === undefined) throw new Error(`signal ${id} is neither new nor known`);
  const signalId = text(row, 'id');
  return { signalId, created: signalId === id };
}
