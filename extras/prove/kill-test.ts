import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Timestamp } from '../../src/base/clock.ts';
import { messageOf } from '../../src/base/errors.ts';
import { probes } from '../../src/base/probe.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openToLook } from '../../src/ledger/open-readonly.ts';
import { ask, type Asked } from './client.ts';
import { isLineageOver, LINEAGE_MAX, outcomeOf, readLineage, rootOf } from './lineage.ts';
import { lineOf, readRecord } from './stub-record.ts';
import type { Script, Unit, Untried } from './test-plan.ts';
import { stagePaths } from './isolate-config.ts';
import { Supervisor, type Kill } from './supervisor.ts';

export interface Play {
  /** Outcome of each unit without kills. */
  readonly calm: ReadonlyMap<string, string>;
  readonly askedInPeace: readonly Asked[];
  /** By the ledger's clock. */
  readonly beganAt: Timestamp;
  readonly asked: readonly Asked[];
  readonly kills: readonly Kill[];
  readonly untried: readonly Untried[];
  readonly faults: readonly string[];
  /** From the first kill to the end of the last. */
  readonly ms: number;
}

export interface PlayOptions {
  readonly given: string | undefined;
  readonly directory: string;
  readonly script: Script;
  readonly seed: number;
  readonly ms: number;
  /** Ends the killing early; work that was started is finished and judged. */
  readonly enough: AbortSignal;
}

/** Concurrent requests. */
const LOAD = 4;
const LOOK_MS = 40;
/** Everything ends within this time without kills, and after the last kill. */
const PATIENCE_MS = 120_000;
const PAUSE_MS = { least: 150, most: 1500 };
/** Points in the program where an interruption would be worst. */
const points = probes.filter((name) => /^(enqueue|claim|spawn|run|settle)\./.test(name));
const NTH_MAX = 6;
/** Share of kills that don't wait for the engine to be ready. */
const EARLY = 0.1;

/** Runs everything once without kills, then repeatedly with kills. */
export async function play(options: PlayOptions): Promise<Play> {
  const { given, directory, script, seed } = options;
  if (script.units.length === 0) return nothing;
  const random = makeRandom(seed);
  const supervisor = new Supervisor(given, directory, () => choosePoint(random));
  try {
    await supervisor.begin();
    const ledger = await openToLook({ kind: 'sqlite', path: stagePaths(directory).ledger });
    try {
      const rehearsal = { ...options, ledger, supervisor, random };
      const beganAt = await ledger.now();
      const { calm, untried, askedInPeace } = await playCalm(rehearsal);
      const units = script.units.filter(({ name }) => calm.has(name));
      const began = performance.now();
      const asked = units.length === 0 ? [] : await playKilled(rehearsal, units);
      const ms = Math.round(performance.now() - began);
      await supervisor.end();
      const { kills, faults } = supervisor;
      return { calm, askedInPeace, beganAt, asked, untried, kills, faults, ms };
    } finally {
      await ledger.close();
    }
  } finally {
    await supervisor.clear();
  }
}

const nothing: Play = {
  calm: new Map(),
  askedInPeace: [],
  beganAt: '',
  asked: [],
  kills: [],
  untried: [],
  faults: [],
  ms: 0,
};

interface Rehearsal extends PlayOptions {
  readonly ledger: Ledger;
  readonly supervisor: Supervisor;
  readonly random: () => number;
}

async function playCalm(
  rehearsal: Rehearsal,
): Promise<Pick<Play, 'calm' | 'untried' | 'askedInPeace'>> {
  const calm = new Map<string, string>();
  const untried: Untried[] = [];
  const askedInPeace: Asked[] = [];
  for (const unit of rehearsal.script.units) {
    const found = await tryOnce(rehearsal, unit, askedInPeace);
    if (typeof found === 'string') calm.set(unit.name, found);
    else untried.push({ what: unit.name, why: found.why });
  }
  return { calm, untried, askedInPeace };
}

async function tryOnce(
  { directory, ledger, supervisor, enough }: Rehearsal,
  unit: Unit,
  askedInPeace: Asked[],
): Promise<string | { readonly why: string }> {
  const over = AbortSignal.any([supervisor.over, enough]);
  try {
    const asked = await ask(stagePaths(directory).state, unit, over);
    if (asked === undefined) return { why: 'there was no time for it' };
    askedInPeace.push(asked);
    const rootJobId = await rootOf(ledger, asked.id);
    if (rootJobId === undefined) return { why: 'what was accepted is not there' };
    if (!(await comesToEnd(ledger, rootJobId, over)))
      return { why: 'it does not come to an end, though nothing was killed' };
    const lineage = await readLineage(ledger, rootJobId);
    if (lineage.jobs.length >= LINEAGE_MAX)
      return { why: `one of it leads to ${LINEAGE_MAX} jobs or more` };
    return outcomeOf(lineage);
  } catch (thrown) {
    return { why: `it is refused: ${messageOf(thrown)}` };
  }
}

async function playKilled(rehearsal: Rehearsal, units: readonly Unit[]): Promise<Asked[]> {
  const { supervisor, ms, enough } = rehearsal;
  const asked: Asked[] = [];
  const curtain = AbortSignal.any([AbortSignal.timeout(ms), supervisor.over, enough]);
  let turn = 0;
  const keepAsking = async (): Promise<void> => {
    while (!curtain.aborted) {
      const unit = units[turn % units.length];
      turn += 1;
      if (unit !== undefined) await askOne(rehearsal, unit, asked);
    }
  };
  await Promise.all([...Array.from({ length: LOAD }, keepAsking), keepKilling(rehearsal, curtain)]);
  return asked;
}

/** Waits for the end of work that was started before the deadline. */
async function askOne(rehearsal: Rehearsal, unit: Unit, asked: Asked[]): Promise<void> {
  const { directory, ledger, supervisor } = rehearsal;
  try {
    const one = await ask(stagePaths(directory).state, unit, supervisor.over);
    if (one === undefined) return;
    asked.push(one);
    const rootJobId = await rootOf(ledger, one.id);
    if (rootJobId !== undefined) await comesToEnd(ledger, rootJobId, supervisor.over);
  } catch (thrown) {
    supervisor.faults.push(`${unit.name} was refused, though not in peace: ${messageOf(thrown)}`);
    await sleep(LOOK_MS);
  }
}

async function comesToEnd(ledger: Ledger, rootJobId: string, over: AbortSignal): Promise<boolean> {
  const until = Date.now() + PATIENCE_MS;
  while (Date.now() < until && !over.aborted) {
    if (await isLineageOver(ledger, rootJobId)) return true;
    await sleep(LOOK_MS);
  }
  return false;
}

async function keepKilling(rehearsal: Rehearsal, curtain: AbortSignal): Promise<void> {
  const { random, supervisor } = rehearsal;
  const killed = new Set<string>();
  const closed = new Promise<void>((resolve) => {
    curtain.addEventListener('abort', () => resolve());
  });
  // The engine is killed at least once, however short the time is.
  for (let isFirst = true; isFirst || !curtain.aborted; isFirst = false) {
    const pauseMs = PAUSE_MS.least + random() * (PAUSE_MS.most - PAUSE_MS.least);
    // Sometimes the engine is killed while it starts; mostly while it works.
    const isEarly = random() < EARLY;
    const ready = supervisor.actor?.ready.catch(() => undefined);
    if (!isEarly) await Promise.race([ready, closed]);
    await Promise.race([sleep(pauseMs), closed]);
    if (isFirst) supervisor.killEngine();
    else if (!curtain.aborted) await killOne(rehearsal, killed);
  }
}

async function killOne(rehearsal: Rehearsal, killed: Set<string>): Promise<void> {
  const { supervisor, random } = rehearsal;
  const { actor } = supervisor;
  const choice = random();
  if (actor?.isAlive() !== true) return;
  if (choice < 0.5) return supervisor.killEngine();
  if (choice >= 0.75) return await killPlugin(rehearsal, killed);
  const helper = await actor.helper();
  if (helper !== undefined) supervisor.killOther(helper, { kind: 'spawner' });
}

/** A job whose plugin is killed has failed once, so each job is hit at most once. */
async function killPlugin(
  { supervisor, script, directory, random }: Rehearsal,
  killed: Set<string>,
): Promise<void> {
  const running = (await supervisor.actor?.plugins()) ?? [];
  const record = readRecord(directory);
  const fit = running
    .flatMap(({ pid }) => lineOf(record, pid) ?? [])
    .filter(({ plugin, job_id: jobId }) => script.killable.has(plugin) && !killed.has(jobId));
  const chosen = fit[Math.floor(random() * fit.length)];
  if (chosen === undefined) return;
  killed.add(chosen.job_id);
  supervisor.killOther(chosen.pid, { kind: 'plugin', jobId: chosen.job_id });
}

function choosePoint(random: () => number): string | undefined {
  if (random() < 0.5) return undefined;
  const point = points[Math.floor(random() * points.length)];
  return `${point}:kill:${1 + Math.floor(random() * NTH_MAX)}`;
}

/** Returns numbers from 0 up to 1 that follow from the seed. */
function makeRandom(seed: number): () => number {
  let turn = 0;
  return () => {
    turn += 1;
    const digest = createHash('sha256').update(`${seed} ${turn}`).digest();
    return digest.readUInt32BE() / 2 ** 32;
  };
}
