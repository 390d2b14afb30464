import type { Timestamp } from '../../base/clock.ts';
import { formatDuration } from '../../base/duration.ts';
import type { Job } from '../../job/job.ts';
import type { PluginSwitch } from '../../ledger/directives.ts';
import type { PluginHealth } from '../../ledger/generations.ts';
import type { DependencyHolder, Line, RunningJob } from '../../ledger/outlook.ts';
import { firstLine, plural, quote, type Cause } from './answer.ts';

/** Who paused or suspended something, as far as that is on record. */
export interface By {
  readonly actor: string | null;
  readonly at: Timestamp | null;
}

/** What holds everything back in a ledger. */
export interface HouseFacts {
  /** Processes that have said lately that they live. */
  readonly hosts: readonly { readonly id: string; readonly host: string; readonly slots: number }[];
  /** Why the process that answers cannot write to the ledger. */
  readonly trouble: string | undefined;
  readonly paused: By | undefined;
  readonly tenant:
    | {
        readonly slug: string;
        readonly held: 'tenant_limit' | 'tenant_suspended' | undefined;
        readonly workers: number | undefined;
      }
    | undefined;
}

/** What holds a plugin back. */
export interface PluginFacts {
  readonly name: string;
  readonly standing: 'loaded' | 'disabled' | 'dormant' | 'broken' | 'unknown';
  /** Some live process knows it, here or elsewhere. */
  readonly isKnown: boolean;
  readonly switchedOff: PluginSwitch | undefined;
  /** Its setup, unless it has none or that went well. */
  readonly init: PluginHealth | undefined;
  /** Undefined where nobody set a limit. */
  readonly parallelism: number | undefined;
  readonly runnerGraceMs: number;
}

export interface WaitFacts {
  readonly job: Job;
  readonly house: HouseFacts;
  readonly plugin: PluginFacts;
  readonly line: Line;
  /** Who has its dependency key, or stands first in the line of it. */
  readonly holder?: DependencyHolder | undefined;
}

/** Why a queued job does not run; the first is what has to be over first. */
export function findWaits(facts: WaitFacts): [Cause, ...Cause[]] {
  const lasting = [...houseCauses(facts.house), ...pluginCauses(facts.plugin, facts.job)];
  const due = dueCause(facts.job);
  // Who is in the way now says nothing about the time when it will be due.
  const causes = due === undefined ? [...lasting, ...crowdCauses(facts)] : [due, ...lasting];
  const [first, ...others] = causes;
  return first === undefined ? [nextInLine(facts)] : [first, ...others];
}

export function houseCauses({ hosts, trouble, paused, tenant }: HouseFacts): Cause[] {
  const causes: Cause[] = [];
  if (trouble !== undefined) {
    causes.push({
      fact: 'the ledger does not take what is written',
      evidence: firstLine(trouble),
      movesBy: 'it goes on when the ledger does',
      commands: ['ductile system status', 'ductile doctor'],
    });
  }
  if (hosts.length === 0) {
    causes.push({
      fact: 'the service is not running',
      evidence: 'no process has said lately that it lives',
      movesBy: 'it goes on when the service is started',
      commands: ['ductile system start'],
    });
  }
  if (tenant?.held === 'tenant_suspended') {
    causes.push({
      fact: `the tenant ${tenant.slug} is suspended`,
      evidence: 'the root ledger says so',
      movesBy: 'it goes on when the operator resumes the tenant',
      commands: [`ductile tenant resume ${quote(tenant.slug)}`],
    });
  }
  const isAllPaused = tenant?.workers === 0 && tenant.held === undefined;
  if (paused !== undefined || isAllPaused) {
    const { actor, at } = paused ?? { actor: null, at: null };
    causes.push({
      fact: 'the system is paused',
      evidence: actor === null ? 'the ledger says so' : `paused by ${actor}`,
      at,
      movesBy: 'it goes on when somebody resumes the system',
      commands: ['ductile system resume'],
    });
  }
  return causes;
}

export function pluginCauses(plugin: PluginFacts, job?: Pick<Job, 'command'>): Cause[] {
  const { name, standing, isKnown, switchedOff, init, runnerGraceMs } = plugin;
  const causes: Cause[] = [];
  if (switchedOff !== undefined) {
    causes.push({
      fact: `the plugin ${name} is switched off`,
      evidence: `switched off by ${switchedOff.changedBy}`,
      at: switchedOff.changedAt,
      movesBy: 'it goes on when somebody enables the plugin',
      commands: [`ductile plugin enable ${quote(name)}`],
    });
  }
  if (!isKnown) {
    causes.push({
      fact: `no running process knows the plugin ${name}`,
      evidence: standings[standing],
      movesBy: `it ends as dead when nobody has known the plugin for ${formatDuration(runnerGraceMs)}`,
      commands: remedyOf(name, standing),
    });
  }
  const isCare = job !== undefined && ['init', 'health'].includes(job.command);
  if (init !== undefined && !isCare) causes.push(initCause(init));
  return causes;
}

const standings: Readonly<Record<PluginFacts['standing'], string>> = {
  loaded: 'it is loaded here, but no live process has told that it runs it',
  disabled: 'the configuration disables it',
  dormant: 'it was found, and waits to be set up',
  broken: 'it was found, and could not be loaded',
  unknown: 'it is in none of the plugin roots of this configuration',
};

function remedyOf(name: string, standing: PluginFacts['standing']): string[] {
  if (standing === 'disabled') {
    return [setting(`plugins.${name}.enabled`, 'true')];
  }
  if (standing === 'loaded') return ['ductile system start'];
  return standing === 'unknown' ? ['ductile plugin list'] : ['ductile doctor'];
}

function initCause({ plugin, status, reason, jobId, updatedAt }: PluginHealth): Cause {
  if (status === 'pending') {
    return {
      fact: `the plugin ${plugin} is being set up`,
      evidence: `its init is job ${jobId}`,
      at: updatedAt,
      movesBy: 'it goes on when that init has succeeded',
      commands: [`ductile why ${jobId}`],
    };
  }
  return {
    fact: `the setup of the plugin ${plugin} failed`,
    evidence: `init, job ${jobId}: ${firstLine(reason ?? 'no reason')}`,
    at: updatedAt,
    movesBy: 'it goes on when an init has succeeded',
    commands: [`ductile plugin init ${quote(plugin)}`, `ductile job inspect ${jobId}`],
  };
}

function dueCause({ nextRetryAt, retryCount, crashCount, ...job }: Job): Cause | undefined {
  if (nextRetryAt === null) return undefined;
  const when = { at: nextRetryAt, movesAt: nextRetryAt };
  const cancel = [`ductile job cancel ${job.id}`];
  if (crashCount > 0 && job.suspect) {
    return {
      fact: `the engine crashed ${plural(crashCount, 'time')} while it ran, and it is tried again later`,
      evidence: firstLine(job.lastError ?? 'the process that ran it died'),
      movesBy: 'its next attempt is due then',
      commands: cancel,
      ...when,
    };
  }
  if (retryCount > 0) {
    return {
      fact: `attempt ${retryCount} of ${job.maxAttempts} failed, and the next one is due later`,
      evidence: firstLine(job.lastError ?? 'no error was told'),
      movesBy: 'its next attempt is due then',
      commands: cancel,
      ...when,
    };
  }
  return {
    fact: 'its time has not come',
    evidence: `accepted from ${job.actor} for a later time`,
    movesBy: 'it is due then',
    commands: cancel,
    ...when,
  };
}

/** What others do that keeps it waiting. */
function crowdCauses(facts: WaitFacts): Cause[] {
  const { job, house, plugin } = facts;
  const { running } = facts.line;
  const causes: Cause[] = [];
  const ofPlugin = running.filter((one) => one.plugin === job.plugin);
  const { parallelism } = plugin;
  if (parallelism !== undefined && ofPlugin.length >= parallelism) {
    causes.push({
      ...heldBy(ofPlugin, `the plugin ${job.plugin} runs ${parallelism} at a time`),
      commands: [
        ...cancels(ofPlugin),
        setting(`plugins.${job.plugin}.parallelism`, String(parallelism + 1)),
      ],
    });
  }
  causes.push(...keyCauses(job, running, facts.holder));
  if (job.suspect && running.some(({ suspect }) => suspect)) {
    const suspects = running.filter(({ suspect }) => suspect);
    causes.push(heldBy(suspects, 'it met crashes, so it runs alone among those that did'));
  }
  const { workers = 0, slug = '' } = house.tenant ?? {};
  if (workers > 0 && running.length >= workers) {
    causes.push({
      ...heldBy(running, `the tenant ${slug} may run ${workers} at a time`),
      commands: [`ductile tenant limit ${quote(slug)} --workers ${workers + 1}`],
    });
  }
  const slots = house.hosts.reduce((sum, host) => sum + host.slots, 0);
  if (slots > 0 && running.length >= slots) {
    causes.push({
      ...heldBy(running, slots === 1 ? 'the only worker is busy' : `all ${slots} workers are busy`),
      commands: [...cancels(running), setting('service.max_workers', String(slots + 1))],
    });
  }
  return causes;
}

function keyCauses(job: Job, running: readonly RunningJob[], first: WaitFacts['holder']): Cause[] {
  const causes: Cause[] = [];
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
    causes.push({ ...heldBy([holder], fact), commands: cancels([holder]) });
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
    causes.push({ ...heldBy([twin], fact), commands: cancels([twin]) });
  }
  return causes;
}

/** Named are those that have run longest. */
function heldBy(holders: readonly RunningJob[], fact: string): Cause {
  const byAge = holders.toSorted((a, b) => ((a.startedAt ?? '') < (b.startedAt ?? '') ? -1 : 1));
  const [oldest] = byAge;
  const named = byAge.slice(0, NAMED_MAX).map(nameJob).join(', ');
  const isOne = holders.length === 1;
  const others = holders.length - NAMED_MAX;
  const more = others > 0 ? ` and ${others} more` : '';
  const firstEnd = byAge.flatMap(({ claimExpiresAt }) => claimExpiresAt ?? []).toSorted()[0];
  return {
    fact,
    evidence: `${named}${more} ${isOne ? 'is' : 'are'} running`,
    at: oldest?.startedAt,
    movesAt: firstEnd,
    movesBy: `it goes on when ${isOne ? 'that' : 'one of them'} ends; no claim lasts longer than told`,
  };
}

const NAMED_MAX = 3;

function nameJob({ id, plugin, command }: RunningJob): string {
  return `job ${id} (${plugin} ${command})`;
}

/** What is in the files is in force with a reload. */
function setting(key: string, value: string): string {
  const assignment = quote(`${key}=${value}`);
  return `ductile config set ${assignment} --apply && ductile system reload`;
}

function cancels(holders: readonly RunningJob[]): string[] {
  return holders.slice(0, 1).map(({ id }) => `ductile job cancel ${id}`);
}

function nextInLine({ job, line }: WaitFacts): Cause {
  if (line.ahead === 0) {
    return {
      fact: 'it is next in line',
      evidence: 'nothing on record holds it back',
      at: job.readyAt,
      movesBy: 'the next free worker takes it',
    };
  }
  return {
    fact: `${plural(line.ahead, 'job')} of ${job.plugin} came before it`,
    evidence: 'jobs of a plugin run in the order in which they came',
    at: job.readyAt,
    movesBy: 'its turn comes after them',
    commands: [`ductile job list --plugin ${quote(job.plugin)} --status queued,running`],
  };
}
