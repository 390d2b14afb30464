import { noRules } from '../../src/ledger/rules.ts';
import type { Attempt } from '../../src/job/attempt.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import type { CopyCounts } from './ledger-copy.sql.ts';
import type { Proof, Prover, ProveRequest } from '../../src/operation/extras.ts';
import { findViolations } from './check-evidence.ts';
import { hasLineageEnded, readLineage, readRoots, findRoot, type Lineage } from './lineage.ts';
import { runKillTest, type KillTestResult } from './kill-test.ts';
import { createProof } from './proof.ts';
import { readStubRecord, type RecordLine } from './stub-record.ts';
import { withScenario, type Scenario } from './scenario.ts';
import type { TestPlan, TestUnit } from './test-plan.ts';
import { rehearsalPaths } from './isolate-config.ts';

const ATTEMPTS_AT_ONCE = 200;
const MS_PER_MINUTE = 60_000;

/** Tests the configuration on a copy of the ledger, with plugin stubs and kills. */
export function makeProver(configPath: string | undefined): Prover {
  return {
    plan: ({ pipeline }) =>
      withScenario(configPath, pipeline, ({ testPlan, copied }) =>
        Promise.resolve(plan(testPlan, copied)),
      ),
    run: (request) =>
      withScenario(configPath, request.pipeline, (scenario) =>
        runProof(configPath, request, scenario),
      ),
  };
}

function plan({ units, responses, untried }: TestPlan, copied: CopyCounts): string[] {
  const names = units.map(({ name }) => name).join(', ');
  const recorded = responses.filter(({ by }) => by === 'recorded').length;
  return [
    `The test will use a copy of the ledger: ${copied.jobs} jobs, ${copied.runs} runs.`,
    units.length === 0 ? 'There is nothing to test.' : `It will test: ${names}.`,
    `Stubs will replace ${responses.length} commands, ${recorded} with recorded responses.`,
    ...untried.map(({ what, why }) => `Not tested: ${what}; ${why}.`),
  ];
}

async function runProof(
  configPath: string | undefined,
  { minutes, seed }: ProveRequest,
  scenario: Scenario,
): Promise<Proof> {
  const { directory, testPlan } = scenario;
  const interrupted = new AbortController();
  const onSignal = (): void => interrupted.abort();
  // The first Ctrl-C ends the kills; the second one ends the program.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, onSignal);
  try {
    const ms = minutes * MS_PER_MINUTE;
    const stopEarly = interrupted.signal;
    const test = await runKillTest({ configPath, directory, testPlan, seed, ms, stopEarly });
    const ledger = await openLedger(
      { kind: 'sqlite', path: rehearsalPaths(directory).ledger },
      noRules,
    );
    try {
      return await collectProof(ledger, scenario, test, seed);
    } finally {
      await ledger.close();
    }
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, onSignal);
  }
}

async function collectProof(
  ledger: Ledger,
  scenario: Scenario,
  test: KillTestResult,
  seed: number,
): Promise<Proof> {
  const { requests, baseline } = test;
  const record = readStubRecord(scenario.directory);
  const lineages = new Map<string, Lineage | undefined>();
  for (const { id } of requests) lineages.set(id, await lineageOf(ledger, id));
  const attempts = await readAttempts(ledger, record);
  const strays = await findStrays(ledger, scenario.testPlan.units, test);
  const violations = findViolations({ requests, lineages, baseline, attempts, record, strays });
  const damage = (await ledger.check()).filter((problem) => !scenario.before.includes(problem));
  return createProof(scenario, test, violations, { damage, record, seed });
}

async function lineageOf(ledger: Ledger, id: string): Promise<Lineage | undefined> {
  const rootJobId = await findRoot(ledger, id);
  if (rootJobId === undefined || !(await hasLineageEnded(ledger, rootJobId))) return undefined;
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
  units: readonly TestUnit[],
  { startedAt, requests, baselineRequests }: KillTestResult,
): Promise<string[]> {
  const known = new Set([...requests, ...baselineRequests].map(({ id }) => id));
  const created: string[] = [];
  for (const unit of units) created.push(...(await readRoots(ledger, unit, startedAt)));
  return created.filter((id) => !known.has(id));
}
