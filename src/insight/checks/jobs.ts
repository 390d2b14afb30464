import { limits } from '../../base/limits.ts';
import type { DeadJob } from '../finding-reads.ts';
import type { Check, CheckContext } from '../check.service.ts';
import { findingId, type LiveFinding } from '../finding.ts';
import { showText } from '../show-text.service.ts';
import { groupUnacknowledged, lookBack } from '../since.service.ts';

const KIND = 'job_dead';

/** Finds commands with dead jobs that weren't retried, one finding for each command. */
export const findDeadJobs: Check = async (context) => {
  const all = await context.ledger.deadJobs(lookBack(context.now));
  // An init can't be retried as a job; `plugin_not_set_up` reports it.
  const jobs = all.filter(({ command }) => command !== 'init');
  const keyOf = ({ plugin, command }: DeadJob): string => `${plugin}/${command}`;
  const groups = groupUnacknowledged(jobs, KIND, keyOf, context).slice(0, limits.findingGroupsMax);
  return await Promise.all(groups.map(([key, group]) => describeDead(key, group, context)));
};

async function describeDead(
  key: string,
  dead: readonly DeadJob[],
  { ledger }: CheckContext,
): Promise<LiveFinding> {
  const [newest] = dead;
  const { id = '', plugin = '', command = '' } = newest ?? {};
  const count = dead.length;
  const shown = await showText(ledger, newest?.lastError ?? null, newest ?? {});
  const acknowledge = `ductile incident acknowledge ${findingId({ kind: KIND, key })}`;
  const retry =
    count === 1
      ? `ductile job retry ${id}`
      : `ductile jobs retry --plugin ${plugin} --command ${command} --status dead`;
  return {
    kind: KIND,
    key,
    severity: 'error',
    category: 'jobs',
    impact: 'item',
    message:
      count === 1
        ? `A job of ${plugin} ${command} is dead: its work was not done.`
        : `${count} jobs of ${plugin} ${command} are dead: their work was not done.`,
    evidence: `job ${id} ended with attempt ${newest?.attempt ?? 1}: ${shown}`,
    fix: 'Fix the cause, then retry. Acknowledge the finding if the work is no longer needed.',
    commands: [retry, acknowledge],
    why: id,
    since: dead.at(-1)?.completedAt,
    count,
    detail: { plugin, command, job_ids: dead.slice(0, limits.findingIdsMax).map((job) => job.id) },
  };
}
