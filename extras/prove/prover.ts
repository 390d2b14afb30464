import { noRules } from '../../src/ledger/rules.ts';
import type { Attempt } from '../../src/job/attempt.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import type { Rehearsed } from './ledger-copy.sql.ts';
import type { Proof, Prover, ProveRequest } from '../../src/engine/prover.ts';
import { judge } from './check-evidence.ts';
import { isLineageOver, readLineage, readRoots, rootOf, type Lineage } from './lineage.ts';
import { play, type Play } from './kill-test.ts';
import { toProof } from './proof.ts';
import { readRecord, type RecordLine } from './stub-record.ts';
import { onStage, type Scene } from './scenario.ts';
import type { Script, Unit } from './test-plan.ts';
import { stagePaths } from './isolate-config.ts';

const ATTEMPTS_AT_ONCE = 200;
const MS_PER_MINUTE = 60_000;

/** Rehearses the configuration on a copy of the ledger, with stand-ins and kills. */
export function makeProver(given: string | undefined): Prover {
  return {
    plan: ({ pipeline }) =>
      onStage(given, pipeline, ({ script, copied }) => Promise.resolve(plan(script, copied))),
    run: (request) => onStage(given, request.pipeline, (scene) => perform(given, request, scene)),
  };
}

function plan({ units, answers, untried }: Script, copied: Rehearsed): string[] {
  const names = units.map(({ name }) => name).join(', ');
  const recorded = answers.filter(({ by }) => by === 'recorded').length;
  return [
    `A copy of the ledger would be worked on: ${copied.jobs} jobs, ${copied.runs} runs.`,
    units.length === 0 ? 'There is nothing to try.' : `These would be tried: ${names}.`,
    `Stand-ins would answer for ${answers.length} commands, ${recorded} as was recorded.`,
    ...untried.map(({ what, why }) => `Not tried: ${what}; ${why}.`),
  ];
}

async function perform(
  given: string | undefined,
  { minutes, seed }: ProveRequest,
  scene: Scene,
): Promise<Proof> {
  const { directory, script } = scene;
  const interrupted = new AbortController();
  const onSignal = (): void => interrupted.abort();
  // The first Ctrl-C ends the rehearsal; the next one ends the program, as usual.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, onSignal);
  try {
    const ms = minutes * MS_PER_MINUTE;
    const enough = interrupted.signal;
    const played = await play({ given, directory, script, seed, ms, enough });
    const ledger = await openLedger(
      { kind: 'sqlite', path: stagePaths(directory).ledger },
      noRules,
    );
    try {
      return await conclude(ledger, scene, played, seed);
    } finally {
      await ledger.close();
    }
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, onSignal);
  }
}

async function conclude(ledger: Ledger, scene: Scene, played: Play, seed: number): Promise<Proof> {
  const { asked, calm } = played;
  const record = readRecord(scene.directory);
  const lineages = new Map<string, Lineage | undefined>();
  for (const { id } of asked) lineages.set(id, await lineageOf(ledger, id));
  const attempts = await readAttempts(ledger, record);
  const strays = await findStrays(ledger, scene.script.units, played);
  const judged = judge({ asked, lineages, calm, attempts, record, strays });
  const damage = (await ledger.check()).filter((problem) => !scene.before.includes(problem));
  return toProof(scene, played, judged, { damage, record, seed });
}

async function lineageOf(ledger: Ledger, id: string): Promise<Lineage | undefined> {
  const rootJobId = await rootOf(ledger, id);
  if (rootJobId === undefined || !(await isLineageOver(ledger, rootJobId))) return undefined;
  return await readLineage(ledger, rootJobId);
}

async function readAttempts(ledger: Ledger, record: readonly RecordLine[]): Promise<Attempt[]> {
  const ids = [...new Set(record.map((line) => line.job_id))];
  const attempts: Attempt[] = [];
  for (let at = 0; at < ids.length; at += ATTEMPTS_AT_ONCE)
    attempts.push(...(await ledger.attempts.listByJob(ids.slice(at, at + ATTEMPTS_AT_ONCE))));
  return attempts;
}

async function findStrays(
  ledger: Ledger,
  units: readonly Unit[],
  { beganAt, asked, askedInPeace }: Play,
): Promise<string[]> {
  const known = new Set([...asked, ...askedInPeace].map(({ id }) => id));
  const made: string[] = [];
  for (const unit of units) made.push(...(await readRoots(ledger, unit, beganAt)));
  return made.filter((id) => !known.has(id));
}
