import { isAtLeast } from './roles.ts';
import type { Principal } from './principal.service.ts';
import { overlayLedger, type LedgerSubset, type Ledger } from '../ledger/ledger.ts';
import type { SignalFilter } from '../signal/signal.ts';
import type { Signal } from '../signal/signal.ts';
import type { Context } from '../operation/context.ts';
import { allows } from './scopes.ts';
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
export function seesHidden({ scopes, role }: Principal): boolean {
  return isAtLeast(role, 'admin') || allows(scopes, 'system:rw');
}

/** Returns the filter of lists for this principal. */
export function sightOf(principal: Principal): Pick<SignalFilter, 'visibility'> {
  return seesHidden(principal) ? {} : { visibility: 'internal' };
}

export function isVisible(
  { visibility }: Pick<Signal, 'visibility'>,
  principal: Principal,
): boolean {
  return visibility !== 'admin_only' || seesHidden(principal);
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
type Sight = 'exact' | 'masked' | 'hidden';

interface Asker {
  readonly ledger: LedgerSubset<'runs.find' | 'signals.list' | 'runs.listWaitedSignals'>;
  readonly principal: Principal;
}

/** Reads the visibility of each, in order. Each signal and run is read once. */
async function readSights({ ledger, principal }: Asker, works: readonly Work[]): Promise<Sight[]> {
  if (seesHidden(principal)) return works.map(() => 'exact');
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
  ledger: Asker['ledger'],
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

export async function readSight(
  { engine, principal }: Pick<Context, 'engine' | 'principal'>,
  work: Work,
): Promise<Sight> {
  const [sight = 'hidden'] = await readSights({ ledger: engine.ledger, principal }, [work]);
  return sight;
}

/**
 * Wraps the engine for operations that read. The rows of jobs, attempts and runs are masked before
 * any operation formats them, so that no list, tree or view can forget it: secrets are masked as in
 * signals, and data for administrators is left out.
 */
export function veilEngine(engine: Engine, principal: Principal): Engine {
  const ledger = veilLedger(engine.ledger, principal);
  return overlay(engine, { ledger });
}

/** Returns the unmasked ledger, as a key of caches. */
export function bareLedger(ledger: Ledger): Ledger {
  return bare.get(ledger) ?? ledger;
}

const bare = new WeakMap<Ledger, Ledger>();

export function veilLedger(ledger: Ledger, principal: Principal): Ledger {
  const asker = { ledger, principal };
  const coverAll = async <Row>(
    rows: readonly Row[],
    workOf: (row: Row) => Work,
    cover: (row: Row, sight: Sight) => Row,
  ): Promise<Row[]> => {
    const sights = await readSights(asker, rows.map(workOf));
    return rows.map((row, index) => cover(row, sights[index] ?? 'hidden'));
  };
  const coverJobs = (jobs: readonly Job[]) => coverAll(jobs, (job) => job, coverJob);
  const coverRuns = (runs: readonly Run[]) => coverAll(runs, toWork, coverRun);
  const coverAttempts = async (attempts: readonly Attempt[]): Promise<Attempt[]> => {
    const ids = [...new Set(attempts.map(({ jobId }) => jobId))];
    const jobs = new Map((await Promise.all(ids.map((id) => ledger.jobs.find(id)))).map(toEntry));
    return await coverAll(attempts, (one) => jobs.get(one.jobId) ?? one, coverAttempt);
  };
  const coverSteps = (steps: readonly Step[]) => coverAll(steps, inRun, coverStep);
  const first = async <Row>(row: Row | undefined, cover: (rows: Row[]) => Promise<Row[]>) =>
    row === undefined ? undefined : (await cover([row]))[0];
  const jobs: Pick<Ledger['jobs'], 'find' | 'list' | 'page' | 'countPage'> = {
    find: async (id) => first(await ledger.jobs.find(id), coverJobs),
    list: async (filter) => coverJobs(await ledger.jobs.list(filter)),
    async page({ query, ...filter }) {
      if (query === undefined || seesHidden(principal)) {
        const page = await ledger.jobs.page({
          ...filter,
          ...(query === undefined ? {} : { query }),
        });
        return { ...page, jobs: await coverJobs(page.jobs) };
      }
      // As in `attempts.page`: searches what the caller can read of each row.
      const page = await ledger.jobs.page({ ...filter, limit: limits.maskedSearchRowsMax });
      const found = (await coverJobs(page.jobs)).filter((job) => matchesQuery(job, query));
      const shown = found.slice(0, filter.limit);
      const next = found.length > shown.length ? shown.at(-1)?.seq : page.next;
      return { jobs: shown, next };
    },
    async countPage(filter) {
      if (filter.query === undefined || seesHidden(principal)) return ledger.jobs.countPage(filter);
      const page = await jobs.page({ ...filter, limit: limits.pageRowsMax });
      return { count: page.jobs.length, isExact: page.next === undefined };
    },
  };
  const attempts = coverAttemptReads(asker, coverAttempts);
  const runs: Partial<Ledger['runs']> = {
    find: async (id) => first(await ledger.runs.find(id), coverRuns),
    list: async (filter) => coverRuns(await ledger.runs.list(filter)),
    listSteps: async (filter) => coverSteps(await ledger.runs.listSteps(filter)),
    listApprovalSteps: async (ids) => coverSteps(await ledger.runs.listApprovalSteps(ids)),
    listWaitingSteps: async (ids) => coverSteps(await ledger.runs.listWaitingSteps(ids)),
    listBranches: async (filter) =>
      coverAll(await ledger.runs.listBranches(filter), inRun, coverBranch),
  };
  const veiled = overlayLedger(ledger, { jobs, attempts, runs });
  bare.set(veiled, ledger);
  return veiled;
}

type CoverAttempts = (attempts: readonly Attempt[]) => Promise<Attempt[]>;

function coverAttemptReads(
  { ledger, principal }: { readonly ledger: Ledger; readonly principal: Principal },
  coverAttempts: CoverAttempts,
): Partial<Ledger['attempts']> {
  return {
    listByJob: async (ids) => coverAttempts(await ledger.attempts.listByJob(ids)),
    list: async (filter) => coverAttempts(await ledger.attempts.list(filter)),
    async page({ query, ...filter }) {
      if (query === undefined || seesHidden(principal)) {
        const page = await ledger.attempts.page({
          ...filter,
          ...(query === undefined ? {} : { query }),
        });
        return { ...page, attempts: await coverAttempts(page.attempts) };
      }
      // A caller must not learn by searching what they can't read, not even from the end of a page.
      // So the search filters masked rows.
      const looked = { ...filter, limit: limits.maskedSearchRowsMax };
      const page = await ledger.attempts.page(looked);
      const shown = await coverAttempts(page.attempts);
      const found = shown.filter((one) => saysQuery(one, query)).slice(0, filter.limit);
      if (found.length === filter.limit) return { attempts: found, cut: undefined };
      const isFull = page.attempts.length === looked.limit;
      return { attempts: found, cut: isFull ? placeOf(page.attempts.at(-1)) : page.cut };
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

function matchesQuery({ lastError }: Job, query: string): boolean {
  return lastError?.toLowerCase().includes(query.toLowerCase()) === true;
}

function placeOf(attempt: Attempt | undefined): AttemptPosition | undefined {
  return attempt && { completedAt: attempt.completedAt, logId: attempt.id };
}

function saysQuery({ error, stderr, result }: Attempt, query: string): boolean {
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

export function coverJob(job: Job, sight: Sight): Job {
  if (sight === 'exact') return job;
  const payload = coverJson(job.payload, sight) ?? 'null';
  return { ...job, payload, lastError: coverText(job.lastError, sight) };
}

export function coverAttempt(attempt: Attempt, sight: Sight): Attempt {
  if (sight === 'exact') return attempt;
  return {
    ...attempt,
    result: coverJson(attempt.result, sight),
    error: coverText(attempt.error, sight),
    stderr: coverText(attempt.stderr, sight),
  };
}

export function coverRun(run: Run, sight: Sight): Run {
  if (sight === 'exact') return run;
  return {
    ...run,
    payload: coverJson(run.payload, sight) ?? 'null',
    output: coverJson(run.output, sight),
    haltMessage: coverText(run.haltMessage, sight),
  };
}

function coverStep(step: Step, sight: Sight): Step {
  if (sight === 'exact') return step;
  return {
    ...step,
    output: coverJson(step.output, sight),
    error: coverText(step.error, sight),
    note: sight === 'hidden' ? step.note : coverText(step.note, sight),
  };
}

function coverBranch(branch: Branch, sight: Sight): Branch {
  if (sight === 'exact') return branch;
  return { ...branch, haltMessage: coverText(branch.haltMessage, sight) };
}

function coverText(text: string | null, sight: Sight): string | null {
  return text === null || sight === 'hidden' ? null : maskText(text);
}

/** JSON text without masked values stays as it is. */
function coverJson(text: string | null, sight: Sight): string | null {
  if (text === null || sight === 'hidden') return null;
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
