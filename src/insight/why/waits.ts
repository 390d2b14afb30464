import { fromTimestamp } from '../../base/clock.ts';
import { quoteShell } from '../../base/text.ts';
import { formatDuration } from '../../base/quantity.ts';
import type { Job } from '../../job/job.ts';
import type { PluginHealth } from '../../job/types.ts';
import {
  toFirstLine,
  formatCount,
  formatSetCommand,
  type ExplanationCause,
} from './explanation.ts';
import { sortByAge, type PluginFacts, type ServiceFacts, type WaitFacts } from './facts.ts';
import { repairOrder } from '../finding.ts';
import { partPaused } from '../findings/paused.ts';
import { pluginNotLoaded, pluginNotSetUp } from '../findings/plugins.ts';
import { toFindingCause } from './finding.ts';
import { describeUsual, overlongAfterMs, roundDuration } from '../usual-duration.service.ts';
import type { RunningJob } from '../../job/types.ts';

/** Lists why a queued job doesn't run, in the order of repair. */
export function listWaitCauses(facts: WaitFacts): [ExplanationCause, ...ExplanationCause[]] {
  const lasting = [
    ...listServiceCauses(facts.service),
    ...listPluginCauses(facts.plugin, facts.job),
  ];
  const due = describeDue(facts.job);
  // A job that is due later isn't held back by the jobs that run now.
  const passing = due === undefined ? listQueueCauses(facts) : [due];
  const [first, ...others] = [...orderRepairs(lasting), ...passing];
  return first === undefined ? [describeQueuePosition(facts)] : [first, ...others];
}

/**
 * Sorts causes in the order of repair: broken parts first, pauses and disabled parts last. While a
 * secret can't be opened, the command that resumes isn't offered, because jobs would only fail.
 */
export function orderRepairs(causes: readonly ExplanationCause[]): ExplanationCause[] {
  const rank = ({ repair }: ExplanationCause): number =>
    repair === undefined ? repairOrder.length : repairOrder.indexOf(repair);
  const isStopped = causes.some(({ repair }) => repair === 'service');
  const sorted = causes
    .filter((cause) => !(isStopped && isCuredByStart(cause)))
    .toSorted((a, b) => rank(a) - rank(b));
  if (!sorted.some(({ repair }) => repair === 'secret')) return sorted;
  return sorted.map((cause) =>
    cause.repair === 'switch'
      ? { ...cause, movesBy: `Repair the credentials first. ${cause.movesBy}`, commands: [] }
      : cause,
  );
}

/** Returns whether starting the service ends the cause: then a process loads the plugin. */
function isCuredByStart({ repair, commands = [] }: ExplanationCause): boolean {
  return repair === 'plugin' && commands.length === 1 && commands[0] === 'ductile system start';
}

/** Lists what holds back everything in a ledger. */
export function listServiceCauses({
  hosts,
  trouble,
  paused,
  tenant,
}: ServiceFacts): ExplanationCause[] {
  const causes: ExplanationCause[] = [];
  if (trouble !== undefined) {
    causes.push({
      repair: 'ledger',
      fact: 'the database does not accept writes',
      evidence: toFirstLine(trouble),
      movesBy: 'it continues when the database accepts writes again',
      commands: ['ductile system status', 'ductile doctor'],
    });
  }
  if (hosts.length === 0) {
    causes.push({
      repair: 'service',
      fact: 'the service is not running',
      evidence: 'no process has sent a heartbeat recently',
      movesBy: 'it continues when the service is started',
      commands: ['ductile system start'],
    });
  }
  if (tenant?.held === 'tenant_suspended') {
    // The directive is in the root ledger.
    const part = { noun: 'tenant', name: tenant.slug, author: undefined } as const;
    causes.push(toFindingCause(partPaused.describe(part)));
  }
  const isAllPaused = tenant?.workers === 0 && tenant.held === undefined;
  if (paused !== undefined || isAllPaused) {
    const part = { noun: 'system', name: '', author: paused } as const;
    causes.push(toFindingCause(partPaused.describe(part)));
  }
  return causes;
}

/** Lists what holds back a plugin. A failed init doesn't hold back `init` and `health` themselves. */
export function listPluginCauses(
  plugin: PluginFacts,
  job?: Pick<Job, 'command'>,
): ExplanationCause[] {
  const { name, state, isKnown, holds, init, runnerGraceMs } = plugin;
  const causes = holds.map(toFindingCause);
  if (!isKnown && !holds.some(({ kind }) => kind === pluginNotLoaded.kind)) {
    causes.push({
      repair: 'plugin',
      fact: `no running process has loaded the plugin ${name}`,
      evidence: stateFacts[state],
      movesBy:
        'jobs of the plugin become dead when no process has loaded it for ' +
        formatDuration(runnerGraceMs),
      commands: listPluginCommands(name, state),
    });
  }
  const isMaintenance = job !== undefined && ['init', 'health'].includes(job.command);
  if (init !== undefined && !isMaintenance) causes.push(describeInit(init));
  return causes;
}

const stateFacts: Readonly<Record<PluginFacts['state'], string>> = {
  loaded: 'it is loaded here, but no live process has reported that it runs it',
  disabled: 'the configuration disables it',
  dormant: 'it was found, and waits to be set up',
  broken: 'it was found, and could not be loaded',
  unknown: 'it is in none of the plugin roots of this configuration',
};

function listPluginCommands(name: string, state: PluginFacts['state']): string[] {
  if (state === 'disabled') {
    return [formatSetCommand(`plugins.${name}.enabled`, 'true')];
  }
  if (state === 'loaded') return ['ductile system start'];
  return state === 'unknown' ? ['ductile plugin list'] : ['ductile doctor'];
}

function describeInit(init: PluginHealth): ExplanationCause {
  if (init.status !== 'pending') return toFindingCause(pluginNotSetUp.describe(init));
  const { plugin, jobId, updatedAt } = init;
  return {
    repair: 'plugin',
    fact: `the plugin ${plugin} is being set up`,
    evidence: `its init is job ${jobId}`,
    at: updatedAt,
    movesBy: 'it continues when that init has succeeded',
    commands: [`ductile why ${jobId}`],
  };
}

function describeDue({
  nextRetryAt,
  retryCount,
  crashCount,
  ...job
}: Job): ExplanationCause | undefined {
  if (nextRetryAt === null) return undefined;
  const when = { at: nextRetryAt, movesAt: nextRetryAt };
  const cancel = [`ductile job cancel ${job.id}`];
  if (crashCount > 0 && job.suspect) {
    return {
      fact:
        `the service crashed ${formatCount(crashCount, 'time')} while it ran, ` +
        'and it is retried later',
      evidence: toFirstLine(job.lastError ?? 'the process that ran it died'),
      movesBy: 'its next attempt is due then',
      commands: cancel,
      ...when,
    };
  }
  if (retryCount > 0) {
    return {
      fact: `attempt ${retryCount} of ${job.maxAttempts} failed, and the next one is due later`,
      evidence: toFirstLine(job.lastError ?? 'no error was recorded'),
      movesBy: 'its next attempt is due then',
      commands: cancel,
      ...when,
    };
  }
  return {
    fact: 'it is not due yet',
    evidence: `${job.actor} requested it for a later time`,
    movesBy: 'it is due then',
    commands: cancel,
    ...when,
  };
}

/** Lists limits and keys that running jobs use up. */
function listQueueCauses(facts: WaitFacts): ExplanationCause[] {
  const { job, service, plugin } = facts;
  const { running } = facts.queue;
  const causes: ExplanationCause[] = [];
  const ofPlugin = running.filter((one) => one.plugin === job.plugin);
  const { parallelism } = plugin;
  if (parallelism !== undefined && ofPlugin.length >= parallelism) {
    const fact = `the plugin ${job.plugin} runs ${formatCount(parallelism, 'job')} at a time`;
    const wider = formatSetCommand(`plugins.${job.plugin}.parallelism`, String(parallelism + 1));
    causes.push(
      describeHolders(facts, ofPlugin, fact, plugin.isConcurrencySafe === false ? [] : [wider]),
    );
  }
  causes.push(...listKeyCauses(facts));
  if (job.suspect && running.some(({ suspect }) => suspect)) {
    const suspects = running.filter(({ suspect }) => suspect);
    causes.push(
      describeHolders(facts, suspects, 'it ran during crashes, so it runs alone among such jobs'),
    );
  }
  const { workers = 0, slug = '' } = service.tenant ?? {};
  if (workers > 0 && running.length >= workers) {
    const fact = `the tenant ${slug} may run ${formatCount(workers, 'job')} at a time`;
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
      fact: `it waits for the dependency ${dependencyKey}; job ${first.id} is first in the queue`,
      evidence: 'jobs that wait for a key run in the order in which they were due',
      movesBy: 'its turn comes after that job',
      commands: [`ductile why ${first.id}`, `ductile job cancel ${first.id}`],
    });
  }
  if (holder !== undefined) {
    const fact = `it waits for the dependency ${dependencyKey}, held by job ${holder.id}`;
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
 * Names the jobs that have run longest. A job that hangs is the cause itself. Raising the limit
 * (`wider`) is offered only if no job hangs, because the next one would hang, too.
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
    movesBy: `it continues when ${isOne ? 'that' : 'one of them'} ends, or when its claim expires`,
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

/** Describes the queue position of a job that nothing else holds back. */
function describeQueuePosition({ job, queue }: WaitFacts): ExplanationCause {
  if (queue.ahead === 0) {
    return {
      fact: 'it is next in line',
      evidence: 'nothing holds it back',
      at: job.readyAt,
      movesBy: 'the next free worker claims it',
    };
  }
  return {
    fact: `${formatCount(queue.ahead, 'job')} of ${job.plugin} came before it`,
    evidence: 'jobs of a plugin run in the order in which they arrived',
    at: job.readyAt,
    movesBy: 'its turn comes after them',
    commands: [`ductile job list --plugin ${quoteShell(job.plugin)} --status queued,running`],
  };
}
