/** Explanations of what has a name in the configuration: plugins, their commands, and pipelines. */
import { quoteShell } from '../../base/text.ts';
import { isTerminal, type Job } from '../../job/job.ts';
import type { BreakerRow } from '../../schedule/types.ts';
import type { LiveFinding } from '../finding.ts';
import type { Run } from '../../pipeline/run/run.ts';
import { toExplanation, type Cause, type Explanation, type Fact } from './explanation.ts';
import type { HouseFacts, PluginFacts } from './wait-facts.ts';
import { houseCauses, orderRepairs, pluginCauses } from './waits.ts';

export interface PluginSubject {
  /** `<plugin>`, or `<plugin>/<command>`. */
  readonly name: string;
  readonly house: HouseFacts;
  readonly plugin: PluginFacts;
  readonly breakers: readonly BreakerRow[];
  /** Findings of `doctor` about it. */
  readonly findings: readonly LiveFinding[];
  /** The newest first. */
  readonly jobs: readonly Job[];
  /** Why its newest unfinished or failed job is as it is. */
  readonly deeper?: Explanation | undefined;
}

/** Explains whether jobs of a plugin or of one of its commands run, and what holds them back. */
export function explainPlugin(facts: PluginSubject): Explanation {
  const { name, house, plugin, breakers, findings, jobs } = facts;
  const blockers = [
    ...orderRepairs([...houseCauses(house), ...pluginCauses(plugin)]),
    ...findings.map(toBlocker),
    ...(findings.length === 0 ? breakers.filter(isOpen).map(describeBreaker) : []),
  ];
  const state = blockers.length === 0 ? plugin.standing : 'held';
  const subject = { kind: 'plugin', id: name, state } as const;
  const [first = describeLast(name, jobs[0]), ...others] = blockers;
  const origin = [...(facts.deeper?.chain ?? []), ...jobs.slice(1, JOBS_TOLD).map(tellJob)];
  const more = [
    ...jobs.slice(0, 1).map(({ id }) => `ductile why ${id}`),
    `ductile job list --plugin ${quoteShell(plugin.name)}`,
  ];
  return toExplanation(subject, [first, ...others], origin, more, { blockers });
}

const JOBS_TOLD = 4;

export interface PipelineSubject {
  readonly name: string;
  readonly findings: readonly LiveFinding[];
  /** The newest first. */
  readonly runs: readonly Run[];
  /** Why its newest run is as it is. */
  readonly deeper?: Explanation | undefined;
}

/** Explains the newest run of a pipeline, and lists what `doctor` finds about all of them. */
export function explainPipeline({ name, findings, runs, deeper }: PipelineSubject): Explanation {
  const [newest] = runs;
  const subject = { kind: 'pipeline', id: name, state: newest?.status ?? 'unused' } as const;
  const blockers = findings.map(toBlocker);
  const [first = describeNewest(name, newest, deeper), ...others] = blockers;
  const origin = [...(deeper?.chain ?? []), ...runs.slice(1, JOBS_TOLD).map(tellRun)];
  const more = [
    ...(newest === undefined ? [] : [`ductile why ${newest.id}`]),
    `ductile run list --pipeline ${quoteShell(name)}`,
  ];
  return toExplanation(subject, [first, ...others], origin, more, { blockers });
}

function toBlocker({ message, evidence, since, fix, commands }: LiveFinding): Cause {
  return { fact: message.replace(/\.$/, ''), evidence, at: since, movesBy: fix, commands };
}

function isOpen({ state }: BreakerRow): boolean {
  return state !== 'closed';
}

function describeBreaker({ plugin, command, state, openedAt, ...row }: BreakerRow): Cause {
  return {
    fact: `the breaker of ${plugin} ${command} is ${state}`,
    evidence: `${row.failureCount} of ${row.threshold} failures in a row`,
    at: openedAt,
    movesBy: 'a due time after its reset time tries it with one job',
    commands: [`ductile system reset ${quoteShell(plugin)} --command ${quoteShell(command)}`],
  };
}

function describeLast(name: string, job: Job | undefined): Cause {
  if (job === undefined) return { fact: `nothing holds ${name}`, evidence: 'it has no jobs' };
  const fact = isTerminal(job.status)
    ? `nothing holds ${name}; its last job is ${job.status}`
    : `nothing holds ${name}; its newest job is ${job.status}`;
  return { fact, evidence: `job ${job.id}`, at: job.completedAt ?? job.createdAt };
}

function describeNewest(
  name: string,
  run: Run | undefined,
  deeper: Explanation | undefined,
): Cause {
  if (run === undefined) return { fact: `${name} has no runs`, evidence: 'the ledger' };
  const verdict = deeper === undefined ? '' : `: ${deeper.verdict.replace(/\.$/, '')}`;
  return {
    fact: `its newest run is ${run.status}${verdict}`,
    evidence: `run ${run.id}`,
    at: run.completedAt ?? run.startedAt ?? run.createdAt,
    movesAt: deeper?.moves_at,
    movesBy: deeper?.moves_by ?? undefined,
    commands: deeper?.commands,
  };
}

function tellJob({ id, plugin, command, status, completedAt, createdAt }: Job): Fact {
  const fact = `${plugin} ${command} ${status}`;
  return { fact, evidence: `job ${id}`, at: completedAt ?? createdAt };
}

function tellRun({ id, pipeline, status, completedAt, createdAt }: Run): Fact {
  return { fact: `${pipeline} ${status}`, evidence: `run ${id}`, at: completedAt ?? createdAt };
}
