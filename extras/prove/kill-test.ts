import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Timestamp } from '../../src/base/clock.ts';
import { messageOf } from '../../src/base/errors.ts';
import { probes } from '../../src/base/probe.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openReadonlyLedger } from '../../src/ledger/open-readonly.ts';
import { sendUntilAccepted, type AcceptedRequest } from './client.ts';
import { hasLineageEnded, LINEAGE_MAX, outcomeOf, readLineage, findRoot } from './lineage.ts';
import { findUnfinished, readStubRecord } from './stub-record.ts';
import type { TestPlan, TestUnit, UntriedItem } from './test-plan.ts';
import { rehearsalPaths } from './isolate-config.ts';
import { Supervisor, type Kill } from './supervisor.ts';

export interface KillTestResult {
  /** Outcome of each unit without kills. */
  readonly baseline: ReadonlyMap<string, string>;
  readonly baselineRequests: readonly AcceptedRequest[];
  /** Start by the ledger's clock. */
  readonly startedAt: Timestamp;
  readonly requests: readonly AcceptedRequest[];
  readonly kills: readonly Kill[];
  readonly untried: readonly UntriedItem[];
  readonly faults: readonly string[];
  /** Duration of the part with kills. */
  readonly ms: number;
}

export interface KillTestOptions {
  readonly configPath: string | undefined;
  readonly directory: string;
  readonly testPlan: TestPlan;
  readonly seed: number;
  readonly ms: number;
  /** Stops the kills early; work that was started is still finished and checked. */
  readonly stopEarly: AbortSignal;
}

const CONCURRENT_REQUESTS = 4;
const POLL_MS = 40;
/** Longest wait for work to end, without kills or after the last kill. */
const END_WAIT_MAX_MS = 120_000;
const PAUSE_MS = { least: 150, most: 1500 };
/** Fault points in the parts of the program where an interruption does the most harm. */
const points = probes.filter((name) => /^(enqueue|claim|spawn|run|settle)\./.test(name));
const NTH_MAX = 6;
/** Share of kills that don't wait for the service to be ready. */
const EARLY_KILL_SHARE = 0.1;

/** Runs every unit once without kills, then repeatedly with kills. */
export async function runKillTest(options: KillTestOptions): Promise<KillTestResult> {
  const { configPath, directory, testPlan, seed } = options;
  if (testPlan.units.length === 0) return emptyResult;
  const random = makeRandom(seed);
  const supervisor = new Supervisor(configPath, directory, () => choosePoint(random));
  try {
    await supervisor.start();
    const ledger = await openReadonlyLedger({
      kind: 'sqlite',
      path: rehearsalPaths(directory).ledger,
    });
    try {
      const killTest = { ...options, ledger, supervisor, random };
      const startedAt = await ledger.now();
      const { baseline, untried, baselineRequests } = await runBaseline(killTest);
      const units = testPlan.units.filter(({ name }) => baseline.has(name));
      const startMs = performance.now();
      const requests = units.length === 0 ? [] : await runWithKills(killTest, units);
      const ms = Math.round(performance.now() - startMs);
      await supervisor.stop();
      const { kills, faults } = supervisor;
      return { baseline, baselineRequests, startedAt, requests, untried, kills, faults, ms };
    } finally {
      await ledger.close();
    }
  } finally {
    await supervisor.kill();
  }
}

const emptyResult: KillTestResult = {
  baseline: new Map(),
  baselineRequests: [],
  startedAt: '',
  requests: [],
  kills: [],
  untried: [],
  faults: [],
  ms: 0,
};

interface KillTest extends KillTestOptions {
  readonly ledger: Ledger;
  readonly supervisor: Supervisor;
  readonly random: () => number;
}

async function runBaseline(
  killTest: KillTest,
): Promise<Pick<KillTestResult, 'baseline' | 'untried' | 'baselineRequests'>> {
  const baseline = new Map<string, string>();
  const untried: UntriedItem[] = [];
  const baselineRequests: AcceptedRequest[] = [];
  for (const unit of killTest.testPlan.units) {
    const found = await tryOnce(killTest, unit, baselineRequests);
    if (typeof found === 'string') baseline.set(unit.name, found);
    else untried.push({ what: unit.name, why: found.why });
  }
  return { baseline, untried, baselineRequests };
}

async function tryOnce(
  { directory, ledger, supervisor, stopEarly }: KillTest,
  unit: TestUnit,
  baselineRequests: AcceptedRequest[],
): Promise<string | { readonly why: string }> {
  const over = AbortSignal.any([supervisor.gaveUp, stopEarly]);
  try {
    const request = await sendUntilAccepted(rehearsalPaths(directory).state, unit, over);
    if (request === undefined) return { why: 'there was no time for it' };
    baselineRequests.push(request);
    const rootJobId = await findRoot(ledger, request.id);
    if (rootJobId === undefined) return { why: 'the accepted request is not in the ledger' };
    if (!(await waitForEnd(ledger, rootJobId, over)))
      return { why: 'it did not finish, although nothing was killed' };
    const lineage = await readLineage(ledger, rootJobId);
    if (lineage.jobs.length >= LINEAGE_MAX)
      return { why: `one request starts ${LINEAGE_MAX} jobs or more` };
    return outcomeOf(lineage);
  } catch (thrown) {
    return { why: `it was refused: ${messageOf(thrown)}` };
  }
}

async function runWithKills(
  killTest: KillTest,
  units: readonly TestUnit[],
): Promise<AcceptedRequest[]> {
  const { supervisor, ms, stopEarly } = killTest;
  const requests: AcceptedRequest[] = [];
  const deadline = AbortSignal.any([AbortSignal.timeout(ms), supervisor.gaveUp, stopEarly]);
  let turn = 0;
  const sendRequests = async (): Promise<void> => {
    while (!deadline.aborted) {
      const unit = units[turn % units.length];
      turn += 1;
      if (unit !== undefined) await sendOne(killTest, unit, requests);
    }
  };
  await Promise.all([
    ...Array.from({ length: CONCURRENT_REQUESTS }, sendRequests),
    killRepeatedly(killTest, deadline),
  ]);
  return requests;
}

/** Starts a unit and waits for its end, even after the deadline. */
async function sendOne(
  killTest: KillTest,
  unit: TestUnit,
  requests: AcceptedRequest[],
): Promise<void> {
  const { directory, ledger, supervisor } = killTest;
  try {
    const request = await sendUntilAccepted(
      rehearsalPaths(directory).state,
      unit,
      supervisor.gaveUp,
    );
    if (request === undefined) return;
    requests.push(request);
    const rootJobId = await findRoot(ledger, request.id);
    if (rootJobId !== undefined) await waitForEnd(ledger, rootJobId, supervisor.gaveUp);
  } catch (thrown) {
    const message = messageOf(thrown);
    supervisor.faults.push(`${unit.name} was refused, but accepted without kills: ${message}`);
    await sleep(POLL_MS);
  }
}

async function waitForEnd(ledger: Ledger, rootJobId: string, over: AbortSignal): Promise<boolean> {
  const until = Date.now() + END_WAIT_MAX_MS;
  while (Date.now() < until && !over.aborted) {
    if (await hasLineageEnded(ledger, rootJobId)) return true;
    await sleep(POLL_MS);
  }
  return false;
}

async function killRepeatedly(killTest: KillTest, deadline: AbortSignal): Promise<void> {
  const { random, supervisor } = killTest;
  const killed = new Set<string>();
  const ended = new Promise<void>((resolve) => {
    deadline.addEventListener('abort', () => resolve());
  });
  // The service is killed at least once, however short the time is.
  for (let isFirst = true; isFirst || !deadline.aborted; isFirst = false) {
    const pauseMs = PAUSE_MS.least + random() * (PAUSE_MS.most - PAUSE_MS.least);
    // Most kills hit a running service, some hit a service that is starting.
    const isEarly = random() < EARLY_KILL_SHARE;
    const ready = supervisor.service?.ready.catch(() => undefined);
    if (!isEarly) await Promise.race([ready, ended]);
    await Promise.race([sleep(pauseMs), ended]);
    if (isFirst) supervisor.killService();
    else if (!deadline.aborted) await killOne(killTest, killed);
  }
}

async function killOne(killTest: KillTest, killed: Set<string>): Promise<void> {
  const { supervisor, random } = killTest;
  const { service } = supervisor;
  const choice = random();
  if (service?.isAlive() !== true) return;
  if (choice < 0.5) return supervisor.killService();
  if (choice >= 0.75) return await killPlugin(killTest, killed);
  const spawner = await service.findSpawner();
  if (spawner !== undefined) supervisor.killProcess(spawner, { kind: 'spawner' });
}

/** Kills each job's plugin at most once, because each kill uses up one attempt. */
async function killPlugin(
  { supervisor, testPlan, directory, random }: KillTest,
  killed: Set<string>,
): Promise<void> {
  const running = (await supervisor.service?.listPlugins()) ?? [];
  const record = readStubRecord(directory);
  const fit = running
    .flatMap(({ pid }) => findUnfinished(record, pid) ?? [])
    .filter(({ plugin, job_id: jobId }) => testPlan.killable.has(plugin) && !killed.has(jobId));
  const chosen = fit[Math.floor(random() * fit.length)];
  if (chosen === undefined) return;
  killed.add(chosen.job_id);
  supervisor.killProcess(chosen.pid, { kind: 'plugin', jobId: chosen.job_id });
}

function choosePoint(random: () => number): string | undefined {
  if (random() < 0.5) return undefined;
  const point = points[Math.floor(random() * points.length)];
  return `${point}:kill:${1 + Math.floor(random() * NTH_MAX)}`;
}

/** Creates a generator of pseudo-random numbers from 0 to 1. */
function makeRandom(seed: number): () => number {
  let turn = 0;
  return () => {
    turn += 1;
    const digest = createHash('sha256').update(`${seed} ${turn}`).digest();
    return digest.readUInt32BE() / 2 ** 32;
  };
}
