import { fromTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { makeBatcher } from '../base/batch.ts';
import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { Emission } from '../pipeline/run/types.ts';
import type { RecordedSignal } from './emit.sql.ts';
import type { Catalog } from '../plugin/catalog.ts';
import { toSignalDraft, type SignalReport } from './envelope.ts';
import { senderOf, type SignalDraft } from './signal.ts';
import { lineageOf, refuseLoop, type JobCause } from '../job/job.ts';
import { followSignal, withTrace } from '../pipeline/follow-signal.ts';
import { parseJson } from '../base/parse-json.ts';
import type { ConfigSnapshot } from '../config/snapshot.sql.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { SuppressedWork } from '../engine/commit-events.ts';
import { announceWork } from '../job/enqueue.service.ts';

/** A signal that a caller reports. */
export interface SignalSubmission extends SignalReport {
  /** Set by a caller that may repeat the request (default: a new id). */
  readonly id?: string | undefined;
  readonly actor: string;
  readonly actorRole?: string | undefined;
  /** Handles the signal again even if it was reported before. */
  readonly rerun?: boolean;
  /** The reporter's trace. */
  readonly traceparent?: string | undefined;
  /** The running job that reports it. */
  readonly cause?: JobCause;
}

/** A signal that was recorded, and how many jobs and runs it started. */
export interface EmittedSignal extends RecordedSignal {
  readonly handlers: number;
}

/** Accepts signals that no attempt emitted. Each is committed together with what it starts. */
export interface SignalEmitter {
  /** Committed when it resolves. */
  emit(submission: SignalSubmission): Promise<EmittedSignal>;
  /** Emits all of them in one commit, or none. Returns a result per signal, in the same order. */
  emitAll(submissions: readonly SignalSubmission[]): Promise<readonly EmittedSignal[]>;
  /** Drafts a signal with the jobs and runs that it would start. Throws if the report is invalid. */
  draft(submission: SignalSubmission): Emission;
}

export function makeSignalEmitter(context: LedgerContext): SignalEmitter {
  const { ledger, commits, quota } = context;
  const write = async (emissions: readonly Emission[]): Promise<EmittedSignal[]> => {
    announceWork(
      context,
      emissions.flatMap(({ jobs, runs }) => [...jobs, ...runs]),
    );
    const { recorded, events } = await ledger.signals.emit(emissions);
    const isNew = (_: Emission, index: number): boolean => recorded[index]?.created === true;
    const signals = emissions.filter(isNew).map(({ signal }) => signal);
    commits.publish({ ...events, signals, suppressed: findSuppressedSignals(emissions, recorded) });
    return recorded.map((one, index) => ({
      ...one,
      handlers: countHandlers(one, emissions[index]),
    }));
  };
  const record = makeBatcher<Emission, EmittedSignal>(write);
  return {
    draft: (submission) => toEmission(submission, context),
    emit: (submission) =>
      quota.within({ jobs: 0, signals: 1 }, async () => {
        context.requireAccepting();
        return await record(toEmission(submission, context));
      }),
    emitAll: (submissions) =>
      quota.within({ jobs: 0, signals: submissions.length }, async () => {
        context.requireAccepting();
        return await write(submissions.map((one) => toEmission(one, context)));
      }),
  };
}

/** Lists the signals that were dropped because their source used their dedupe key before. */
function findSuppressedSignals(
  emissions: readonly Emission[],
  recorded: readonly RecordedSignal[],
): SuppressedWork[] {
  return recorded.flatMap(({ created, signalId }, at): SuppressedWork[] => {
    const { signal, rerun } = emissions[at] ?? {};
    if (created || rerun === true || signal?.dedupeKey === undefined) return [];
    const { type, source, dedupeKey, data } = signal;
    const target = `${source} ${type}`;
    return [{ target, dedupeKey, payload: data, holderKind: 'signal', holderId: signalId }];
  });
}

/** A signal that was reported before starts nothing, unless the caller requests a rerun. */
function countHandlers({ created }: RecordedSignal, emission: Emission | undefined): number {
  if (emission === undefined || !(created || emission.rerun === true)) return 0;
  return emission.jobs.length + emission.runs.length;
}

function toEmission(
  submission: SignalSubmission,
  { generation, catalog }: Pick<LedgerContext, 'generation' | 'catalog'>,
): Emission {
  const { id = makeId(), actor, actorRole, data, occurredAt, cause } = submission;
  const nowMs = Date.now();
  const current = generation.rules;
  refuseLoop(cause, current.hopsMax);
  const reporter = { id, actor, actorRole, nowMs };
  const signal = { ...toSignalDraft(submission, reporter), ...lineageIn(submission) };
  refusePluginName(signal.source, catalog);
  const { hops: _, ...descent } = lineageOf(cause);
  const scope: { payload: JsonObject; context: JsonObject } = { payload: data, context: {} };
  const followers = followSignal(signal, scope, current, {
    submittedBy: 'route',
    actor: signal.source,
    runtimeCaused: false,
    ...descent,
    key: id,
    atMs: occurredAt === undefined ? nowMs : fromTimestamp(occurredAt),
  });
  if (followers.jobs.length + followers.runs.length === 0) current.onUnmatched?.(signal);
  const rerun = submission.rerun === true ? { rerun: true } : {};
  return withTrace({ signal, ...followers, ...rerun }, submission.traceparent);
}

/** Puts the signal into the chain of the job that reports it, as if the job had emitted it. */
function lineageIn({ cause, metadata = {} }: SignalSubmission): Partial<SignalDraft> {
  if (cause === undefined) return {};
  const { hops, rootJobId, sourceEventId } = cause;
  const isCorrelated = typeof metadata['correlation_id'] === 'string';
  return {
    hops: hops + 1,
    ...(isCorrelated ? {} : { correlationId: rootJobId }),
    ...(isCorrelated || sourceEventId === null ? {} : { causationId: sourceEventId }),
  };
}

/** Refuses the name of a plugin as source: routes with `from: <plugin>` rely on it. */
function refusePluginName(source: string, { plugins }: Catalog): void {
  if (!plugins.has(senderOf(source))) return;
  throw new DuctileError('INPUT_INVALID', `source is ${source}, the name of a plugin`, {
    place: 'source',
    hint: 'Use another source. Only the plugin itself may use its name.',
  });
}

/** The signal types that the routes and pipelines of one live process handle. */
interface HandledTypes {
  readonly processId: string;
  readonly host: string;
  readonly types: ReadonlySet<string>;
}

type SnapshotReads = LedgerSubset<'kind' | 'processes.list' | 'snapshots.list'>;

const SNAPSHOTS_READ = 100;
/** Signals that nothing handles may come often; other hosts change their configuration rarely. */
const CACHED_MS = 5000;
const cached = new WeakMap<
  SnapshotReads,
  { readonly atMs: number; readonly all: HandledTypes[] }
>();

/**
 * Says that other live hosts have a route or pipeline for a type that nothing here handles. A signal
 * is handled by the configuration of the host that accepts it, and by no other.
 */
export async function warnUnhandled(
  ledger: SnapshotReads,
  processId: string,
  type: string,
): Promise<string | undefined> {
  // A SQLite ledger has one process.
  if (ledger.kind === 'sqlite') return undefined;
  const known = cached.get(ledger);
  const isFresh = known !== undefined && performance.now() - known.atMs < CACHED_MS;
  const all = isFresh ? known.all : await listHandledTypes(ledger);
  if (!isFresh) cached.set(ledger, { atMs: performance.now(), all });
  const others = all.filter((one) => one.processId !== processId && one.types.has(type));
  if (others.length === 0) return undefined;
  const hosts = [...new Set(others.map(({ host }) => host))].join(', ');
  return (
    `nothing on this host handles ${type}, but the configuration of ${hosts} does; ` +
    'give all hosts the same routes and pipelines, then run `ductile signal replay`'
  );
}

/** The types that some live processes handle and others don't. */
export async function findUnevenTypes(ledger: SnapshotReads): Promise<string[]> {
  if (ledger.kind === 'sqlite') return [];
  const all = await listHandledTypes(ledger);
  const types = new Set(all.flatMap((one) => [...one.types]));
  return [...types].filter((type) => !all.every((one) => one.types.has(type))).toSorted();
}

async function listHandledTypes(ledger: SnapshotReads): Promise<HandledTypes[]> {
  const processes = await ledger.processes.list();
  if (processes.length < 2) return [];
  const snapshots = await ledger.snapshots.list(SNAPSHOTS_READ);
  return processes.flatMap(({ id, host }) => {
    const latest = snapshots.find(({ processId }) => processId === id);
    return latest === undefined ? [] : [{ processId: id, host, types: typesIn(latest) }];
  });
}

function typesIn({ config }: ConfigSnapshot): ReadonlySet<string> {
  const { routes = [], pipelines = [] } = parseJson(config) as {
    readonly routes?: readonly { readonly event_type?: unknown }[];
    readonly pipelines?: readonly { readonly on?: unknown }[];
  };
  const named = [...routes.map((one) => one.event_type), ...pipelines.map(({ on }) => on)];
  return new Set(named.filter((type) => typeof type === 'string'));
}
