import type { Proof } from '../../src/engine/prover.ts';
import { recoveryOf, type Judgement } from './check-evidence.ts';
import type { Play } from './kill-test.ts';
import type { RecordLine } from './stub-record.ts';
import type { Scene } from './scenario.ts';

/** Maximum of listed faults; the counts include all. */
const TOLD_MAX = 20;

export interface Findings {
  /** Problems that the ledger's check found, and that weren't there before. */
  readonly damage: readonly string[];
  readonly record: readonly RecordLine[];
  readonly seed: number;
}

/** Combines the verdict with its evidence. */
export function toProof(
  scene: Scene,
  played: Play,
  judged: Judgement,
  { damage, record, seed }: Findings,
): Proof {
  const { kills, asked, faults } = played;
  const { lost, twice, different, repeated } = judged;
  const broken = [...lost, ...twice, ...different, ...damage, ...faults];
  const untried = [...scene.script.untried, ...played.untried];
  const hasTried = asked.length > 0 && kills.length > 0;
  const count = (kind: string): number => kills.filter((kill) => kill.kind === kind).length;
  if (count('spawner') === 0 && asked.length > 0)
    untried.push({ what: 'the death of the spawner', why: 'it was not hit in this time' });
  return {
    verdict: broken.length > 0 ? 'broken' : hasTried ? 'kept' : 'untried',
    seed,
    seconds: Math.round(played.ms / 1000),
    ledger: {
      kind: scene.kind,
      bytes: scene.bytes,
      jobs: scene.copied.jobs,
      runs: scene.copied.runs,
      left_out: scene.copied.openJobs + scene.copied.openRuns,
    },
    tried: triedOf(scene, played),
    stubbed: stubbedOf(scene, record),
    untried,
    changes: [...scene.script.changes],
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
    broken: broken.slice(0, TOLD_MAX),
    recovery_ms: {
      engine: recoveryOf('engine', kills, record),
      spawner: recoveryOf('spawner', kills, record),
      plugin: recoveryOf('plugin', kills, record),
    },
  };
}

function triedOf({ script }: Scene, { asked, calm }: Play): Proof['tried'] {
  return script.units
    .filter(({ name }) => calm.has(name))
    .map(({ name, kind, payloadFrom }) => {
      const lines = (calm.get(name) ?? '').split('\n');
      const bad = lines.find((line) => / (halted|dead|failed|timed_out)( |$)/.test(line));
      return {
        name,
        kind,
        times: asked.filter(({ unit }) => unit === name).length,
        jobs: lines.filter((line) => !line.startsWith(`${name} `)).length,
        payload: payloadFrom,
        in_peace: bad ?? 'succeeded',
      };
    });
}

/** Lists the stand-ins that were used. */
function stubbedOf({ script }: Scene, record: readonly RecordLine[]): Proof['stubbed'] {
  const used = new Set(record.map(({ plugin, command }) => `${plugin}.${command}`));
  return script.answers
    .map(({ plugin, command, ...answer }) => ({ name: `${plugin}.${command}`, ...answer }))
    .filter(({ name }) => used.has(name))
    .map(({ name, step, by, jobId, without }) => ({
      command: name,
      step: step ?? null,
      by,
      job_id: jobId ?? null,
      without: without ?? null,
    }));
}
