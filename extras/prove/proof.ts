import type { Proof } from '../../src/operation/extras.ts';
import { recoveryOf, type Violations } from './check-evidence.ts';
import type { KillTestResult } from './kill-test.ts';
import type { RecordLine } from './stub-record.ts';
import type { Scenario } from './scenario.ts';

/** Listed violations; the counts include all. */
const BROKEN_SHOWN_MAX = 20;

export interface Findings {
  /** Problems that the ledger's check found, and that weren't there before. */
  readonly damage: readonly string[];
  readonly record: readonly RecordLine[];
  readonly seed: number;
}

/** Combines the evidence and the verdict. */
export function createProof(
  scenario: Scenario,
  test: KillTestResult,
  violations: Violations,
  { damage, record, seed }: Findings,
): Proof {
  const { kills, requests, faults } = test;
  const { lost, twice, different, repeated } = violations;
  const broken = [...lost, ...twice, ...different, ...damage, ...faults];
  const untried = [...scenario.testPlan.untried, ...test.untried];
  const hasTried = requests.length > 0 && kills.length > 0;
  const count = (kind: string): number => kills.filter((kill) => kill.kind === kind).length;
  if (count('spawner') === 0 && requests.length > 0)
    untried.push({ what: 'a crash of the spawner', why: 'it was not killed in this time' });
  return {
    verdict: broken.length > 0 ? 'broken' : hasTried ? 'kept' : 'untried',
    seed,
    seconds: Math.round(test.ms / 1000),
    ledger: {
      kind: scenario.kind,
      bytes: scenario.bytes,
      jobs: scenario.copied.jobs,
      runs: scenario.copied.runs,
      left_out: scenario.copied.openJobs + scenario.copied.openRuns,
    },
    tried: listTried(scenario, test),
    stubbed: listStubbed(scenario, record),
    untried,
    changes: [...scenario.testPlan.changes],
    kills: {
      engine: count('engine'),
      at_points: kills.filter(({ point }) => point !== undefined).length,
      spawner: count('spawner'),
      plugin: count('plugin'),
    },
    jobs: new Set(record.map((line) => line.job_id)).size,
    repeated,
    lost: lost.length,
    twice: twice.length,
    different: different.length,
    damaged: damage.length,
    broken: broken.slice(0, BROKEN_SHOWN_MAX),
    recovery_ms: {
      engine: recoveryOf('engine', kills, record),
      spawner: recoveryOf('spawner', kills, record),
      plugin: recoveryOf('plugin', kills, record),
    },
  };
}

function listTried({ testPlan }: Scenario, { requests, baseline }: KillTestResult): Proof['tried'] {
  return testPlan.units
    .filter(({ name }) => baseline.has(name))
    .map(({ name, kind, payloadFrom }) => {
      const lines = (baseline.get(name) ?? '').split('\n');
      const bad = lines.find((line) => / (halted|dead|failed|timed_out)( |$)/.test(line));
      return {
        name,
        kind,
        times: requests.filter(({ unit }) => unit === name).length,
        jobs: lines.filter((line) => !line.startsWith(`${name} `)).length,
        payload: payloadFrom,
        in_peace: bad ?? 'succeeded',
      };
    });
}

/** Lists the stubs that were used. */
function listStubbed({ testPlan }: Scenario, record: readonly RecordLine[]): Proof['stubbed'] {
  const used = new Set(record.map(({ plugin, command }) => `${plugin}.${command}`));
  return testPlan.responses
    .map(({ plugin, command, ...stub }) => ({ name: `${plugin}.${command}`, ...stub }))
    .filter(({ name }) => used.has(name))
    .map(({ name, step, by, jobId, without }) => ({
      command: name,
      step: step ?? null,
      by,
      job_id: jobId ?? null,
      without: without ?? null,
    }));
}
