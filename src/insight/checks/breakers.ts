import { fromTimestamp, toTimestamp } from '../../base/clock.ts';
import { formatDuration } from '../../base/quantity.ts';
import type { BreakerRow } from '../../schedule/types.ts';
import type { Check, CheckContext } from '../check.service.ts';
import type { LiveFinding } from '../finding.ts';
import { showText } from '../show-text.service.ts';

/** Finds circuit breakers that hold back schedules. */
export const findOpenBreakers: Check = async (context) => {
  const rows = await context.ledger.breakers.list({});
  const open = rows.filter(({ state }) => state !== 'closed');
  return await Promise.all(open.map((row) => describeBreaker(row, context)));
};

async function describeBreaker(
  row: BreakerRow,
  { ledger, now }: CheckContext,
): Promise<LiveFinding> {
  const { plugin, command, state, failureCount, openedAt, lastJobId, resetAfterMs } = row;
  const job = lastJobId === null ? undefined : await ledger.jobs.find(lastJobId);
  const error = await showText(ledger, job?.lastError ?? null, job ?? {});
  const triesAt =
    openedAt === null ? undefined : toTimestamp(fromTimestamp(openedAt) + resetAfterMs);
  const failures = failureCount === 1 ? 'one failure' : `${failureCount} failures in a row`;
  const shown = state === 'open' ? 'open' : 'half open';
  const next = describeNext(state, triesAt, now);
  const source = lastJobId === null ? '' : ` (job ${lastJobId})`;
  const fix =
    'Fix the cause of the failures. ' +
    'Then close the breaker, or wait: after its reset time it lets one job through.';
  return {
    kind: 'breaker_open',
    key: `${plugin}/${command}`,
    severity: 'error',
    category: 'plugins',
    message: `The breaker of ${plugin} ${command} is ${shown}: its schedules start no jobs. ${next}`,
    evidence: `${failures}; last error: ${error}${source}`,
    fix,
    commands: [`ductile system reset ${plugin} --command ${command}`],
    why: lastJobId ?? undefined,
    since: openedAt,
    detail: {
      plugin,
      command,
      state,
      failures: failureCount,
      job_id: lastJobId,
      tries_again_at: triesAt ?? null,
    },
  };
}

function describeNext(
  state: BreakerRow['state'],
  triesAt: string | undefined,
  now: string,
): string {
  if (state !== 'open' || triesAt === undefined) return 'A probe decides whether it closes.';
  const inMs = fromTimestamp(triesAt) - fromTimestamp(now);
  if (inMs <= 0) return 'It lets a probe through at the next due time.';
  return `It lets a probe through after ${triesAt}, in ${formatDuration(Math.ceil(inMs / 1000) * 1000)}.`;
}
