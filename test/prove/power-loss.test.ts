/**
 * Power loss. A server under load records all its disk operations, below SQLite, and is killed.
 * Then disks are built in the states that a cut at any moment could leave: everything that was
 * synced, and a random part of the rest. Each is sound, is a prefix of the history, and has
 * everything that was acknowledged. On some of them the server is started again and completes the
 * work.
 */
import { noRules } from '../../src/ledger/rules.ts';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openLedger } from '../../src/ledger/open.ts';
import type { Operation } from '../support/crash/client.ts';
import { between, pick, type Random } from '../support/crash/random.ts';
import type { RecordLine } from '../support/crash/recorder.ts';
import { makeDirectory } from '../support/directory.ts';
import { preloadLack } from './native/preload.ts';
import type { DiskEntry } from './power/disk-journal.ts';
import { cutPower, replay, ways, type Image, type Way } from './power/disk.ts';
import { serve, type ServerHistory, type Observation } from './power/served.ts';
import { campaign, type Trial } from './support/campaign.ts';
import type { Figures } from './support/report.ts';
import { stopSchedule } from './support/cluster.ts';
import { comparePart, readStory, type Story } from './support/story.ts';

/** Per trial: the checked disks, and those on which the server is started. */
const DISKS = 60;
const STARTS = 3;
/** In `npm test`. */
const DISKS_SHORT = 8;
/** The maximum number of disks until a planted mistake is found. */
const PLANTED_MAX = 100;
/** The precision of the recorded start of a plugin. */
const ROUNDING_MS = 2;
const FAULTS_SHOWN = 5;

campaign('power-loss', { trials: 1, timeoutMs: 600_000 }, (trial) => {
  if (preloadLack === undefined) return run(trial);
  console.warn(`power-loss was left out: ${preloadLack}`);
  return Promise.resolve({ leftOut: 1 });
});

async function run(trial: Trial): Promise<Figures> {
  const { random, isShort } = trial;
  const served = await serve(trial);
  const powerCut = await readRecording(served);
  const disks = isShort ? DISKS_SHORT : DISKS;
  for (let done = 0; done < disks; done += 1)
    await expectSound(powerCut, drawCut(powerCut, random), random);
  const never = await findPlanted(powerCut, 'never', random);
  const late = await findPlanted(powerCut, 'late', random);
  const starts = isShort ? 1 : STARTS;
  for (let done = 0; done < starts; done += 1)
    await startAgain(powerCut, drawCut(powerCut, random), random);
  const { entries, answers, kills, stops } = served;
  const acknowledged = answers.filter(({ what }) => what.outcome === 'acknowledged').length;
  const syncs = entries.filter(({ kind }) => kind === 'syncEnded').length;
  const writes = entries.filter(({ kind }) => kind === 'written').length;
  const folds = countFolds(entries);
  const found = { disksUntilNeverFound: [never], disksUntilLateFound: [late] };
  return { disks, starts, acknowledged, kills, stops, writes, syncs, folds, ...found };
}

interface PowerCut {
  readonly served: ServerHistory;
  readonly record: readonly RecordLine[];
  readonly whole: Story;
  readonly lastRef: number;
}

/** The complete history. */
async function readRecording(served: ServerHistory): Promise<PowerCut> {
  const { crashTest, entries, answers } = served;
  const { directory } = crashTest.place;
  const image = cutPower(replay(entries, entries.length), directory, 'everything', () => 0);
  expectFaithful(image, directory);
  const whole = await readStory(placeOf(await write(image, directory, await makeDirectory())));
  const lastRef = Math.max(0, ...answers.map(({ what }) => what.ref));
  return { served, record: await crashTest.record(), whole, lastRef };
}

/** Without a cut, the journal describes the files exactly. */
function expectFaithful(image: Image, directory: string): void {
  const state = join(directory, 'state');
  for (const name of readdirSync(state)) {
    const path = join(state, name);
    if (name.endsWith('-shm') || !statSync(path).isFile()) continue;
    const expected = image.get(path);
    const found = readFileSync(path);
    if (expected?.equals(found) === true) continue;
    const what = `${found.length} bytes, and the journal has ${expected?.length ?? 'no such file'}`;
    throw new Error(`the journal does not match ${name}: it has ${what}`);
  }
}

interface Cut {
  readonly way: Way;
  /** The number of entries before the cut. */
  readonly count: number;
  /** Acknowledgements from this time on don't count. */
  readonly atMs: number;
}

/** Selects a random moment, or one right after an acknowledgement. */
function drawCut({ served: { entries, answers, successes } }: PowerCut, random: Random): Cut {
  const { atMs: observedMs } = pick<Observation<unknown>>([...answers, ...successes], random);
  const next = entries.findIndex(({ atMs }) => atMs > observedMs);
  const count = random() < 0.5 && next >= 0 ? next : between(random, 0, entries.length);
  return { way: pick(ways, random), count, atMs: entries[count]?.atMs ?? Infinity };
}

/** A disk that ignores all syncs, and one that ignores the last sync of each file. */
type Plant = 'never' | 'late';

function makeDisk(
  { served: { entries, crashTest } }: PowerCut,
  { way, count }: Cut,
  random: Random,
  plant?: Plant,
): Image {
  const syncs = entries.slice(0, count).filter(({ kind }) => kind === 'syncEnded');
  const lastOf = new Map(syncs.map((sync) => [sync.file, sync]));
  const isDone = (sync: DiskEntry): boolean =>
    plant === undefined || sync.isDirectory || (plant === 'late' && sync !== lastOf.get(sync.file));
  return cutPower(replay(entries, count, isDone), crashTest.place.directory, way, random);
}

async function expectSound(powerCut: PowerCut, cut: Cut, random: Random): Promise<void> {
  const faults = await verify(powerCut, cut, makeDisk(powerCut, cut, random));
  if (faults.length === 0) return;
  const { way, count } = cut;
  throw new Error(`${way} of ${count} entries: ${faults.slice(0, FAULTS_SHOWN).join('\n')}`);
}

/** A disk that doesn't sync must be detected. Returns the number of disks until then. */
async function findPlanted(powerCut: PowerCut, plant: Plant, random: Random): Promise<number> {
  for (let disks = 1; disks <= PLANTED_MAX; disks += 1) {
    const cut = drawCut(powerCut, random);
    if ((await verify(powerCut, cut, makeDisk(powerCut, cut, random, plant))).length > 0)
      return disks;
  }
  throw new Error(`on ${PLANTED_MAX} disks nobody noticed that syncs came ${plant}`);
}

async function verify(powerCut: PowerCut, { atMs }: Cut, image: Image): Promise<string[]> {
  const { served, record, whole, lastRef } = powerCut;
  const target = await makeDirectory();
  const place = placeOf(await write(image, served.crashTest.place.directory, target));
  try {
    const ledger = await openLedger(place, noRules);
    const problems = await ledger.check();
    await ledger.close();
    const part = await readStory(place);
    const owed = served.answers.filter((fact) => fact.atMs < atMs).flatMap(idsOf);
    return [
      ...problems,
      ...comparePart(part, whole, { owed, lastRef, hasOneWriter: true }),
      ...findForgotten(part, served, atMs),
      ...findUnclaimed(part, record, atMs + served.dayMs),
    ];
  } catch (error) {
    return [`it cannot be opened: ${String(error)}`];
  } finally {
    rmSync(target, { recursive: true });
  }
}

function idsOf({ what }: { readonly what: Operation }): string[] {
  const id = what.runId ?? what.jobId;
  return what.outcome === 'acknowledged' && id !== undefined ? [id] : [];
}

/** A caller that learned that a job succeeded never learns otherwise later. */
function findForgotten({ jobs }: Story, { successes }: ServerHistory, atMs: number): string[] {
  const succeeded = new Set(
    jobs.filter(({ status }) => status === 'succeeded').map(({ id }) => id),
  );
  return successes
    .filter((fact) => fact.atMs < atMs && !succeeded.has(fact.what))
    .map(({ what }) => `${what} was told to have succeeded, and has not`);
}

/** No plugin was started under a lost claim. */
function findUnclaimed({ jobs }: Story, record: readonly RecordLine[], dayMs: number): string[] {
  const jobOf = new Map(jobs.map((job) => [job['id'], job]));
  return record
    .filter(({ phase, at }) => phase === 'start' && at < dayMs - ROUNDING_MS)
    .filter(({ job_id: id, attempt }) => {
      const { attempt: last = 0, status } = jobOf.get(id) ?? {};
      return Number(last) < attempt || (Number(last) === attempt && status === 'queued');
    })
    .map(
      ({ job_id: id, attempt }) => `attempt ${attempt} at ${id} was started, and is not claimed`,
    );
}

/** Starts the server on such a disk; it completes the work and accepts more. */
async function startAgain(powerCut: PowerCut, cut: Cut, random: Random): Promise<void> {
  const { served, record } = powerCut;
  const { crashTest, answers, dayMs } = served;
  const { directory } = crashTest.place;
  rmSync(join(directory, 'state'), { recursive: true, force: true });
  await write(makeDisk(powerCut, cut, random), directory, directory);
  const lines = record.filter(({ at }) => at < cut.atMs + dayMs);
  writeFileSync(
    join(directory, 'record'),
    lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
  );
  const known = answers.map(({ what, atMs }): Operation =>
    atMs < cut.atMs ? what : { ref: what.ref, outcome: 'unknown' },
  );
  await crashTest.start();
  const next = await crashTest.client.enqueue();
  await stopSchedule(crashTest);
  await crashTest.drain();
  const { faults } = await crashTest.verify({ history: [...known, next] });
  if (faults.length === 0) return;
  const what = `${cut.way} of ${cut.count} entries, started again`;
  throw new Error(`${what}: ${faults.slice(0, FAULTS_SHOWN).join('\n')}`);
}

async function write(image: Image, from: string, to: string): Promise<string> {
  mkdirSync(join(to, 'state'), { recursive: true, mode: 0o700 });
  for (const [path, content] of image) {
    const target = join(to, path.slice(from.length));
    if (content === undefined) mkdirSync(target, { recursive: true });
    else writeFileSync(target, content, { mode: 0o600 });
  }
  return to;
}

function placeOf(directory: string) {
  return { kind: 'sqlite', path: join(directory, 'state/ledger.db') } as const;
}

/** The number of times the ledger's journal was checkpointed into its file. */
function countFolds(entries: readonly DiskEntry[]): number {
  const ledger = entries.find(({ kind, name }) => kind === 'opened' && name.endsWith('/ledger.db'));
  return entries.filter(({ kind, file }) => kind === 'syncEnded' && file === ledger?.file).length;
}
