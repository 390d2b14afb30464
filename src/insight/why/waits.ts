import { quoteShell } from '../../base/text.ts';
import { formatDuration } from '../../base/quantity.ts';
import type { Job } from '../../job/job.ts';
import type { PluginHealth } from '../../config/snapshot-types.ts';
import {
  toFirstLine,
  formatCount,
  repairOrder,
  formatSetCommand,
  type ExplanationCause,
} from './explanation.ts';
import { listQueueCauses, describeQueuePosition } from './queue-causes.ts';
import type { CredentialFault, ServiceFacts, PluginFacts, WaitFacts } from './wait-facts.ts';

/** Why a queued job does not run, in the order of repair. */
export function listWaitCauses(facts: WaitFacts): [ExplanationCause, ...ExplanationCause[]] {
  const lasting = [
    ...listServiceCauses(facts.service),
    ...listPluginCauses(facts.plugin, facts.job),
  ];
  const due = dueCause(facts.job);
  // Who is in the way now says nothing about the time when it will be due.
  const passing = due === undefined ? listQueueCauses(facts) : [due];
  const [first, ...others] = [...orderRepairs(lasting), ...passing];
  return first === undefined ? [describeQueuePosition(facts)] : [first, ...others];
}

/**
 * Sorts causes by when they have to be repaired: first what is broken, last the switch that lets work
 * go again. While a secret can't be opened, that switch isn't offered: jobs would only fail.
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
      ? { ...cause, movesBy: `${cause.movesBy}; repair the credentials before that`, commands: [] }
      : cause,
  );
}

/** A plugin that is loaded here is known to a process as soon as the service runs. */
function isCuredByStart({ repair, commands = [] }: ExplanationCause): boolean {
  return repair === 'plugin' && commands.length === 1 && commands[0] === 'ductile system start';
}

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
      fact: 'the ledger does not take what is written',
      evidence: toFirstLine(trouble),
      movesBy: 'it goes on when the ledger does',
      commands: ['ductile system status', 'ductile doctor'],
    });
  }
  if (hosts.length === 0) {
    causes.push({
      repair: 'service',
      fact: 'the service is not running',
      evidence: 'no process has said lately that it lives',
      movesBy: 'it goes on when the service is started',
      commands: ['ductile system start'],
    });
  }
  if (tenant?.held === 'tenant_suspended') {
    causes.push({
      repair: 'switch',
      fact: `the tenant ${tenant.slug} is suspended`,
      evidence: 'the root ledger says so',
      movesBy: 'it goes on when the operator resumes the tenant',
      commands: [`ductile tenant resume ${quoteShell(tenant.slug)}`],
    });
  }
  const isAllPaused = tenant?.workers === 0 && tenant.held === undefined;
  if (paused !== undefined || isAllPaused) {
    const { actor, at } = paused ?? { actor: null, at: null };
    causes.push({
      repair: 'switch',
      fact: 'the system is paused',
      evidence: actor === null ? 'the ledger says so' : `paused by ${actor}`,
      at,
      movesBy: 'it goes on when somebody resumes the system',
      commands: ['ductile system resume'],
    });
  }
  return causes;
}

export function listPluginCauses(
  plugin: PluginFacts,
  job?: Pick<Job, 'command'>,
): ExplanationCause[] {
  const { name, state, isKnown, switchedOff, init, runnerGraceMs } = plugin;
  const causes: ExplanationCause[] = (plugin.credentials ?? []).map((fault) =>
    credentialCause(name, fault),
  );
  if (switchedOff !== undefined) {
    causes.push({
      repair: 'switch',
      fact: `the plugin ${name} is switched off`,
      evidence: `switched off by ${switchedOff.changedBy}`,
      at: switchedOff.changedAt,
      movesBy: 'it goes on when somebody enables the plugin',
      commands: [`ductile plugin enable ${quoteShell(name)}`],
    });
  }
  if (!isKnown) {
    causes.push({
      repair: 'plugin',
      fact: `no running process knows the plugin ${name}`,
      evidence: standings[state],
      movesBy: `it ends as dead when nobody has known the plugin for ${formatDuration(runnerGraceMs)}`,
      commands: remedyOf(name, state),
    });
  }
  const isCare = job !== undefined && ['init', 'health'].includes(job.command);
  if (init !== undefined && !isCare) causes.push(initCause(init));
  return causes;
}

function credentialCause(plugin: string, { name, keyId }: CredentialFault): ExplanationCause {
  const commands = [`ductile credential set ${quoteShell(name)}`];
  if (keyId === undefined) {
    return {
      repair: 'secret',
      fact: `the credential ${name}, which the plugin ${plugin} needs, does not exist`,
      evidence: `plugins.${plugin}.config refers to credential:${name}`,
      movesBy: 'its attempts fail until the credential is set',
      commands,
    };
  }
  return {
    repair: 'secret',
    fact: `the credential ${name}, which the plugin ${plugin} needs, can't be opened`,
    evidence: `it is sealed with the key ${keyId}, which this process does not have`,
    movesBy:
      'put the key back (the file credential.key of the state directory, or its variable) and ' +
      'restart the service, or set the credential again',
    commands,
  };
}

const standings: Readonly<Record<PluginFacts['state'], string>> = {
  loaded: 'it is loaded here, but no live process has told that it runs it',
  disabled: 'the configuration disables it',
  dormant: 'it was found, and waits to be set up',
  broken: 'it was found, and could not be loaded',
  unknown: 'it is in none of the plugin roots of this configuration',
};

function remedyOf(name: string, standing: PluginFacts['state']): string[] {
  if (standing === 'disabled') {
    return [formatSetCommand(`plugins.${name}.enabled`, 'true')];
  }
  if (standing === 'loaded') return ['ductile system start'];
  return standing === 'unknown' ? ['ductile plugin list'] : ['ductile doctor'];
}

function initCause({ plugin, status, reason, jobId, updatedAt }: PluginHealth): ExplanationCause {
  if (status === 'pending') {
    return {
      repair: 'plugin',
      fact: `the plugin ${plugin} is being set up`,
      evidence: `its init is job ${jobId}`,
      at: updatedAt,
      movesBy: 'it goes on when that init has succeeded',
      commands: [`ductile why ${jobId}`],
    };
  }
  return {
    repair: 'plugin',
    fact: `the setup of the plugin ${plugin} failed`,
    evidence: `init, job ${jobId}: ${toFirstLine(reason ?? 'no reason')}`,
    at: updatedAt,
    movesBy: 'it goes on when an init has succeeded',
    commands: [`ductile plugin init ${quoteShell(plugin)}`, `ductile job inspect ${jobId}`],
  };
}

function dueCause({
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
      fact: `the engine crashed ${formatCount(crashCount, 'time')} while it ran, and it is tried again later`,
      evidence: toFirstLine(job.lastError ?? 'the process that ran it died'),
      movesBy: 'its next attempt is due then',
      commands: cancel,
      ...when,
    };
  }
  if (retryCount > 0) {
    return {
      fact: `attempt ${retryCount} of ${job.maxAttempts} failed, and the next one is due later`,
      evidence: toFirstLine(job.lastError ?? 'no error was told'),
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
