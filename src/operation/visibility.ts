import { isAtLeast } from '../base/roles.ts';
import type { Principal } from '../access/tokens.service.ts';
import { overlayLedger, type LedgerSubset, type Ledger } from '../ledger/ledger.ts';
import type { SignalFilter } from '../signal/signal.ts';
import type { Signal } from '../signal/signal.ts';
import type { Context } from './context.ts';
import { allows } from '../access/scopes.ts';
import type { Json } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import { limits } from '../base/limits.ts';
import { maskText } from '../base/secrets.ts';
import type { Engine } from '../engine/engine.ts';
import type { Attempt, AttemptPosition } from '../job/attempt.ts';
import type { Job } from '../job/job.ts';
import type { Branch, Run, Step } from '../pipeline/run/run.ts';
import { maskData } from '../signal/mask.ts';

/**
 * True for administrators: principals who may change the system. Others never see `admin_only`
 * signals.
 */
export function canSeeHidden({ scopes, role }: Principal): boolean {
  return isAtLeast(role, 'admin') || allows(scopes, 'system:rw');
}

/** Returns the filter that leaves out signals which the principal can't see. */
export function toVisibilityFilter(principal: Principal): Pick<SignalFilter, 'visibility'> {
  return canSeeHidden(principal) ? {} : { visibility: 'internal' };
}

export function isVisible(
  { visibility }: Pick<Signal, 'visibility'>,
  principal: Principal,
): boolean {
  return visibility !== 'admin_only' || canSeeHidden(principal);
}

/** A job, an attempt or a part of a run, with the fields that decide its visibility. */
interface Work {
  readonly sourceEventId: string | null;
  /** The run of a step, or the run itself. */
  readonly runId?: string | null;
  readonly actor?: string;
}

/**
 * How much of the data of a job or run a caller sees. `hidden`: an `admin_only` signal caused it.
 * `masked`: secrets are masked as in signals. `exact`: the caller is an administrator, or requested
 * the work.
 */
type DataVisibility = 'exact' | 'masked' | 'hidden';

interface Caller {
  readonly ledger: LedgerSubset<'runs.find' | 'signals.list' | 'runs.listWaitedSignals'>;
  readonly principal: Principal;
}

/** Reads how much of each job or run the caller sees, in order. Each signal and run is read once. */
async function readVisibilities(
  { ledger, principal }: Caller,
  works: readonly Work[],
): Promise<DataVisibility[]> {
  if (canSeeHidden(principal)) return works.map(() => 'exact');
  const runs = await readEach(
    works,
    ({ runId }) => runId,
    (id) => readRun(ledger, id),
  );
  const signalsOf = ({ sourceEventId, runId }: Work): string[] => [
    ...(sourceEventId === null ? [] : [sourceEventId]),
    ...(runs.get(runId ?? '')?.signalIds ?? []),
  ];
  const isSeen = await readEach(
    works.flatMap(signalsOf),
    (id) => id,
    async (id) => {
      const [signal] = await ledger.signals.list({ id, limit: 1 });
      return signal === undefined || isVisible(signal, principal);
    },
  );
  return works.map((work) => {
    if (signalsOf(work).some((id) => isSeen.get(id) === false)) return 'hidden';
    const actors = [work.actor, runs.get(work.runId ?? '')?.actor];
    return actors.includes(principal.actor) ? 'exact' : 'masked';
  });
}

/**
 * Reads the signals whose data a run contains: the one that started it, and those that it waited
 * for.
 */
async function readRun(
  ledger: Caller['ledger'],
  id: string,
): Promise<{ readonly actor: string | undefined; readonly signalIds: readonly string[] }> {
  const [run, waited] = await Promise.all([
    ledger.runs.find(id),
    ledger.runs.listWaitedSignals(id),
  ]);
  return { actor: run?.actor, signalIds: [run?.sourceEventId ?? [], waited].flat() };
}

async function readEach<Row, Value>(
  rows: readonly Row[],
  keyOf: (row: Row) => string | null | undefined,
  read: (key: string) => Promise<Value>,
): Promise<ReadonlyMap<string, Value>> {
  const keys = [...new Set(rows.flatMap((row) => keyOf(row) ?? []))];
  const values = await Promise.all(keys.map(async (key) => [key, await read(key)] as const));
  return new Map(values);
}

export async function readVisibility(
  { engine, principal }: Pick<Context, 'engine' | 'principal'>,
  work: Work,
): Promise<DataVisibility> {
  const [visibility = 'hidden'] = await readVisibilities({ ledger: engine.ledger, principal }, [
    work,
  ]);
  return visibility;
}

/**
 * Wraps the engine for operations that read. The rows of jobs, attempts and runs are masked before
 * any operation formats them, so that no list, tree or view can forget it. Secrets are masked as in
 * signals, and data for administrators is left out.
 */
export function maskEngine(engine: Engine, principal: Principal): Engine {
  const ledger = maskLedger(engine.ledger, principal);
  return overlay(engine, { ledger });
}

/** Returns the ledger behind a masked one, as a key of caches. */
export function unmaskedLedger(ledger: Ledger): Ledger {
  return unmasked.get(ledger) ?? ledger;
}

const unmasked = new WeakMap<Ledger, Ledger>();

/** Returns the ledger with the rows of its reads masked for the principal. Administrators see all. */
export function maskLedger(ledger: Ledger, principal: Principal): Ledger {
  if (canSeeHidden(principal)) return ledger;
  const caller = { ledger, principal };
  const maskAll = async <Row>(
    rows: readonly Row[],
    workOf: (row: Row) => Work,
    mask: (row: Row, visibility: DataVisibility) => Row,
  ): Promise<Row[]> => {
    const visibilities = await readVisibilities(caller, rows.map(workOf));
    return rows.map((row, index) => mask(row, visibilities[index] ?? 'hidden'));
  };
  const maskJobs = (jobs: readonly Job[]) => maskAll(jobs, (job) => job, maskJob);
  const maskRuns = (runs: readonly Run[]) => maskAll(runs, toWork, maskRun);
  const maskAttempts = async (attempts: readonly Attempt[]): Promise<Attempt[]> => {
    const ids = [...new Set(attempts.map(({ jobId }) => jobId))];
    const jobs = new Map((await Promise.all(ids.map((id) => ledger.jobs.find(id)))).map(toEntry));
    return await maskAll(attempts, (one) => jobs.get(one.jobId) ?? one, maskAttempt);
  };
  const maskSteps = (steps: readonly Step[]) => maskAll(steps, inRun, maskStep);
  const first = async <Row>(row: Row | undefined, mask: (rows: Row[]) => Promise<Row[]>) =>
    row === undefined ? undefined : (await mask([row]))[0];
  const jobs: Pick<Ledger['jobs'], 'find' | 'list' | 'page' | 'countPage'> = {
    find: async (id) => first(await ledger.jobs.find(id), maskJobs),
    list: async (filter) => maskJobs(await ledger.jobs.list(filter)),
    async page({ query, ...filter }) {
      if (query === undefined) {
        const page = await ledger.jobs.page(filter);
        return { ...page, jobs: await maskJobs(page.jobs) };
      }
      // As in `attempts.page`, the search filters masked rows.
      const page = await ledger.jobs.page({ ...filter, limit: limits.maskedSearchRowsMax });
      const found = (await maskJobs(page.jobs)).filter((job) => matchesJob(job, query));
      const shown = found.slice(0, filter.limit);
      const next = found.length > shown.length ? shown.at(-1)?.seq : page.next;
      return { jobs: shown, next };
    },
    async countPage(filter) {
      if (filter.query === undefined) return ledger.jobs.countPage(filter);
      const page = await jobs.page({ ...filter, limit: limits.pageRowsMax });
      return { count: page.jobs.length, isExact: page.next === undefined };
    },
  };
  const attempts = maskAttemptReads(ledger, maskAttempts);
  const runs: Partial<Ledger['runs']> = {
    find: async (id) => first(await ledger.runs.find(id), maskRuns),
    list: async (filter) => maskRuns(await ledger.runs.list(filter)),
    listSteps: async (filter) => maskSteps(await ledger.runs.listSteps(filter)),
    listApprovalSteps: async (ids) => maskSteps(await ledger.runs.listApprovalSteps(ids)),
    listWaitingSteps: async (ids) => maskSteps(await ledger.runs.listWaitingSteps(ids)),
    listBranches: async (filter) =>
      maskAll(await ledger.runs.listBranches(filter), inRun, maskBranch),
  };
  const masked = overlayLedger(ledger, { jobs, attempts, runs });
  unmasked.set(masked, ledger);
  return masked;
}

type MaskAttempts = (attempts: readonly Attempt[]) => Promise<Attempt[]>;

function maskAttemptReads(ledger: Ledger, maskAttempts: MaskAttempts): Partial<Ledger['attempts']> {
  return {
    listByJob: async (ids) => maskAttempts(await ledger.attempts.listByJob(ids)),
    list: async (filter) => maskAttempts(await ledger.attempts.list(filter)),
    async page({ query, ...filter }) {
      if (query === undefined) {
        const page = await ledger.attempts.page(filter);
        return { ...page, attempts: await maskAttempts(page.attempts) };
      }
      // The search filters masked rows: it must not reveal what the caller can't read, not even by
      // where a page ends.
      const searched = { ...filter, limit: limits.maskedSearchRowsMax };
      const page = await ledger.attempts.page(searched);
      const shown = await maskAttempts(page.attempts);
      const found = shown.filter((one) => matchesAttempt(one, query)).slice(0, filter.limit);
      if (found.length === filter.limit) return { attempts: found, cut: undefined };
      const isFull = page.attempts.length === searched.limit;
      return { attempts: found, cut: isFull ? positionOf(page.attempts.at(-1)) : page.cut };
    },
  };
}

/** Returns the object with some members replaced; other members keep their `this`. */
function overlay<T extends object>(target: T, members: Partial<T>): T {
  return new Proxy(target, {
    get(whole, key) {
      if (Object.hasOwn(members, key)) return members[key as keyof T];
      const value: unknown = Reflect.get(whole, key, whole);
      return typeof value === 'function' ? (value.bind(whole) as unknown) : value;
    },
  });
}

function matchesJob({ lastError }: Job, query: string): boolean {
  return lastError?.toLowerCase().includes(query.toLowerCase()) === true;
}

function positionOf(attempt: Attempt | undefined): AttemptPosition | undefined {
  return attempt && { completedAt: attempt.completedAt, logId: attempt.id };
}

function matchesAttempt({ error, stderr, result }: Attempt, query: string): boolean {
  return [error, stderr, result].some(
    (text) => text?.toLowerCase().includes(query.toLowerCase()) === true,
  );
}

function toEntry(job: Job | undefined): [string, Job | undefined] {
  return [job?.id ?? '', job];
}

function toWork({ id, sourceEventId, actor }: Run): Work {
  return { runId: id, sourceEventId, actor };
}

function inRun({ runId }: Step | Branch): Work {
  return { runId, sourceEventId: null };
}

export function maskJob(job: Job, visibility: DataVisibility): Job {
  if (visibility === 'exact') return job;
  const payload = maskStoredJson(job.payload, visibility) ?? 'null';
  return { ...job, payload, lastError: maskStoredText(job.lastError, visibility) };
}

export function maskAttempt(attempt: Attempt, visibility: DataVisibility): Attempt {
  if (visibility === 'exact') return attempt;
  return {
    ...attempt,
    result: maskStoredJson(attempt.result, visibility),
    error: maskStoredText(attempt.error, visibility),
    stderr: maskStoredText(attempt.stderr, visibility),
  };
}

export function maskRun(run: Run, visibility: DataVisibility): Run {
  if (visibility === 'exact') return run;
  return {
    ...run,
    payload: maskStoredJson(run.payload, visibility) ?? 'null',
    output: maskStoredJson(run.output, visibility),
    haltMessage: maskStoredText(run.haltMessage, visibility),
  };
}

function maskStep(step: Step, visibility: DataVisibility): Step {
  if (visibility === 'exact') return step;
  return {
    ...step,
    output: maskStoredJson(step.output, visibility),
    error: maskStoredText(step.error, visibility),
    note: visibility === 'hidden' ? step.note : maskStoredText(step.note, visibility),
  };
}

function maskBranch(branch: Branch, visibility: DataVisibility): Branch {
  if (visibility === 'exact') return branch;
  return { ...branch, haltMessage: maskStoredText(branch.haltMessage, visibility) };
}

function maskStoredText(text: string | null, visibility: DataVisibility): string | null {
  return text === null || visibility === 'hidden' ? null : maskText(text);
}

/** JSON text without masked values stays as it is. */
function maskStoredJson(text: string | null, visibility: DataVisibility): string | null {
  if (text === null || visibility === 'hidden') return null;
  let value: Json;
  try {
    value = parseJson(text) as Json;
  } catch {
    // Output of a plugin may not be JSON.
    return maskText(text);
  }
  const { value: masked, paths } = maskData(value, '');
  return paths.length === 0 ? text : JSON.stringify(masked);
}
