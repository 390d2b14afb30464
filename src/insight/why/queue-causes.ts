/** What other jobs do that keeps a job waiting. */
import { quoteShell } from '../../base/text.ts';
import { fromTimestamp } from '../../base/clock.ts';
import { overlongAfterMs, describeUsual, roundDuration } from '../usual-duration.service.ts';
import type { RunningJob } from '../../tenant/outlook.ts';
import { formatCount, formatSetCommand, type ExplanationCause } from './explanation.ts';
import type { WaitFacts } from './wait-facts.ts';

/** Lists what other jobs do that keeps a job waiting. */
export function listQueueCauses(facts: WaitFacts): ExplanationCause[] {
  const { job, service, plugin } = facts;
  const { running } = facts.queue;
  const causes: ExplanationCause[] = [];
  const ofPlugin = running.filter((one) => one.plugin === job.plugin);
  const { parallelism } = plugin;
  if (parallelism !== undefined && ofPlugin.length >= parallelism) {
    const fact = `the plugin ${job.plugin} runs ${parallelism} at a time`;
    const wider = formatSetCommand(`plugins.${job.plugin}.parallelism`, String(parallelism + 1));
    causes.push(
      describeHolders(facts, ofPlugin, fact, plugin.isConcurrencySafe === false ? [] : [wider]),
    );
  }
  causes.push(...listKeyCauses(facts));
  if (job.suspect && running.some(({ suspect }) => suspect)) {
    const suspects = running.filter(({ suspect }) => suspect);
    causes.push(
      describeHolders(facts, suspects, 'it met crashes, so it runs alone among those that did'),
    );
  }
  const { workers = 0, slug = '' } = service.tenant ?? {};
  if (workers > 0 && running.length >= workers) {
    const fact = `the tenant ${slug} may run ${workers} at a time`;
    const wider = `ductile tenant limit ${quoteShell(slug)} --workers ${workers + 1}`;
    causes.push(describeHolders(facts, running, fact, [wider]));
  }
  const slots = service.hosts.reduce((sum, host) => sum + host.slots, 0);
  if (slots > 0 && running.length >= slots) {
    const fact = slots === 1 ? 'the only worker is busy' : `all ${slots} workers are busy`;
    const wider = formatSetCommand('service.max_workers', String(slots + 1));
    causes.push(describeHolders(facts, running, fact, [wider]));
  }
  return causes;
}

function listKeyCauses(facts: WaitFacts): ExplanationCause[] {
  const { job, holder: first } = facts;
  const { running } = facts.queue;
  const causes: ExplanationCause[] = [];
  const { dependencyKey, dedupeKey } = job;
  const holder =
    dependencyKey === null
      ? undefined
      : running.find((other) => other.dependencyKey === dependencyKey);
  if (holder === undefined && first !== undefined && first.id !== job.id) {
    causes.push({
      fact: `dependency ${dependencyKey}, for which job ${first.id} is first in line`,
      evidence: `of those that wait for a key, who was due first runs first`,
      movesBy: 'its turn comes when that has ended',
      commands: [`ductile why ${first.id}`, `ductile job cancel ${first.id}`],
    });
  }
  if (holder !== undefined) {
    const fact = `dependency ${dependencyKey}, held by job ${holder.id}`;
    causes.push(describeHolders(facts, [holder], fact));
  }
  const twin = running.find(
    (other) =>
      dedupeKey !== null &&
      other.dedupeKey === dedupeKey &&
      other.plugin === job.plugin &&
      other.command === job.command,
  );
  if (twin !== undefined) {
    const fact = `a job with its dedupe key ${dedupeKey} is running`;
    causes.push(describeHolders(facts, [twin], fact));
  }
  return causes;
}

/**
 * Names those that have run longest. If one of them hangs, that is the cause: more room would only be
 * filled by the next one, so `wider` is offered when all of them take as long as they usually do.
 */
function describeHolders(
  facts: WaitFacts,
  holders: readonly RunningJob[],
  fact: string,
  wider: readonly string[] = [],
): ExplanationCause {
  const byAge = sortByAge(holders);
  const [oldest] = byAge;
  const named = byAge.slice(0, NAMED_MAX).map(nameJob).join(', ');
  const isOne = holders.length === 1;
  const others = holders.length - NAMED_MAX;
  const more = others > 0 ? ` and ${others} more` : '';
  const firstEnd = byAge.flatMap(({ claimExpiresAt }) => claimExpiresAt ?? []).toSorted()[0];
  const hanging = byAge.find((one) => isOverlong(facts, one));
  const cause = {
    at: oldest?.startedAt,
    movesAt: firstEnd,
    movesBy: `it goes on when ${isOne ? 'that' : 'one of them'} ends; no claim lasts longer than told`,
  };
  if (hanging === undefined) {
    const evidence = `${named}${more} ${isOne ? 'is' : 'are'} running`;
    return { ...cause, fact, evidence, commands: [...listJobCommands(oldest), ...wider] };
  }
  return {
    ...cause,
    fact: `${fact}, and ${nameJob(hanging)} seems to hang`,
    evidence: `it has run for ${describeAge(facts, hanging)}${more}`,
    at: hanging.startedAt,
    commands: [`ductile job cancel ${hanging.id}`, ...listJobCommands(hanging)],
  };
}

export function sortByAge(holders: readonly RunningJob[]): RunningJob[] {
  return holders.toSorted((a, b) => ((a.startedAt ?? '~') < (b.startedAt ?? '~') ? -1 : 1));
}

function isOverlong({ usual, now }: WaitFacts, { id, startedAt }: RunningJob): boolean {
  if (startedAt === null || now === undefined) return false;
  return fromTimestamp(now) - fromTimestamp(startedAt) >= overlongAfterMs(usual?.get(id));
}

function describeAge({ usual, now }: WaitFacts, { id, startedAt }: RunningJob): string {
  const ms = fromTimestamp(now ?? '') - fromTimestamp(startedAt ?? '');
  return `${roundDuration(ms)}; ${describeUsual(usual?.get(id))}`;
}

const NAMED_MAX = 3;

function nameJob({ id, plugin, command }: RunningJob): string {
  return `job ${id} (${plugin} ${command})`;
}

function listJobCommands(job: RunningJob | undefined): string[] {
  return job === undefined ? [] : [`ductile why ${job.id}`, `ductile job cancel ${job.id}`];
}

/** What is told of a job that nothing else holds. */
export function describeQueuePosition({ job, queue }: WaitFacts): ExplanationCause {
  if (queue.ahead === 0) {
    return {
      fact: 'it is next in line',
      evidence: 'nothing on record holds it back',
      at: job.readyAt,
      movesBy: 'the next free worker takes it',
    };
  }
  return {
    fact: `${formatCount(queue.ahead, 'job')} of ${job.plugin} came before it`,
    evidence: 'jobs of a plugin run in the order in which they came',
    at: job.readyAt,
    movesBy: 'its turn comes after them',
    commands: [`ductile job list --plugin ${quoteShell(job.plugin)} --status queued,running`],
  };
}
