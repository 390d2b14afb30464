import { fromTimestamp, type Timestamp } from '../../base/clock.ts';
import { formatDuration } from '../../base/quantity.ts';
import { limits } from '../../base/limits.ts';
import type { Run } from '../../pipeline/run/run.ts';
import type { Check, CheckContext } from '../check.service.ts';
import { type LiveFinding, formatAge } from '../finding.ts';
import { overlongAfterMs, toUsualDuration, type UsualDuration } from '../usual-duration.service.ts';

/** Finds runs that keep others waiting for a concurrency key far longer than their pipeline usually takes. */
export const findHeldKeys: Check = async (context) => {
  const { ledger } = context;
  const { rows } = await ledger.runs.page({ status: ['queued'], limit: limits.findingRowsMax });
  const waiting = rows.filter(
    ({ concurrencyKey, dueAt }) => concurrencyKey !== null && dueAt === null,
  );
  const byKey = [...Map.groupBy(waiting, ({ concurrencyKey }) => concurrencyKey ?? '')];
  const found = await Promise.all(
    byKey.slice(0, limits.findingGroupsMax).map(([key, runs]) => checkKey(key, runs, context)),
  );
  return found.flat();
};

async function checkKey(
  concurrencyKey: string,
  waiting: readonly Run[],
  { ledger, now }: CheckContext,
): Promise<LiveFinding[]> {
  const open = await ledger.runs.list({ concurrencyKey, limit: limits.findingRowsMax });
  const holders = open.filter(({ status }) => status === 'running');
  const [holder] = holders.toSorted((a, b) => (startOf(a) < startOf(b) ? -1 : 1));
  if (holder === undefined) return [];
  const { pipeline } = holder;
  const ended = await ledger.runs.page({
    pipeline,
    status: ['succeeded'],
    limit: limits.checks.usualAttemptsRead,
  });
  const usual = toUsualDuration(ended.rows.map(durationOf));
  const heldMs = fromTimestamp(now) - fromTimestamp(startOf(holder));
  if (heldMs < overlongAfterMs(usual)) return [];
  return [describeHeldKey(concurrencyKey, { holder, waiting, usual, now })];
}

function startOf({ startedAt, createdAt }: Run): Timestamp {
  return startedAt ?? createdAt;
}

function durationOf(run: Run): number {
  return fromTimestamp(run.completedAt ?? startOf(run)) - fromTimestamp(startOf(run));
}

interface HeldKeyFacts {
  readonly holder: Run;
  readonly waiting: readonly Run[];
  readonly usual: UsualDuration | undefined;
  readonly now: Timestamp;
}

function describeHeldKey(key: string, { holder, waiting, usual, now }: HeldKeyFacts): LiveFinding {
  const { id, pipeline } = holder;
  const count = waiting.length;
  const since = startOf(holder);
  const takes =
    usual === undefined
      ? 'the pipeline has no history to compare with'
      : `95 % of its last ${usual.attempts} runs took at most ${formatDuration(usual.p95Ms)}`;
  const held = `Run ${id} of the pipeline ${pipeline} has held the concurrency key ${key}`;
  const others = count === 1 ? 'A run waits' : `${count} runs wait`;
  return {
    kind: 'key_held',
    key,
    severity: 'warning',
    category: 'pipelines',
    impact: 'part',
    message: `${held} for ${formatAge(since, now)}. ${others} for it.`,
    evidence: `the run started at ${since}; ${takes}`,
    fix: 'Find out what the run waits for. Cancel it if its work is no longer needed; the next run starts then.',
    commands: [`ductile run cancel ${id}`],
    why: id,
    since,
    count,
    detail: {
      run_id: id,
      pipeline,
      waiting_run_ids: waiting.slice(0, limits.findingIdsMax).map((run) => run.id),
    },
  };
}
