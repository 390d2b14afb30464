import { quoteShell } from '../../base/text.ts';
import { isTerminal, type Job } from '../../job/job.ts';
import type { BreakerRow } from '../../schedule/breaker.ts';
import type { LiveFinding } from '../finding.ts';
import { breakerOpen } from '../findings/plugins.ts';
import type { Run } from '../../pipeline/run/run.ts';
import {
  toExplanation,
  type ExplanationCause,
  type Explanation,
  type ExplanationFact,
} from './explanation.ts';
import type { ServiceFacts, PluginFacts } from './facts.ts';
import { toFindingCause } from './finding.ts';
import { listServiceCauses, orderRepairs, listPluginCauses } from './waits.ts';

/** The records about a plugin, or about one of its commands. */
interface PluginExplanationFacts {
  /** `<plugin>`, or `<plugin>/<command>`. */
  readonly name: string;
  readonly service: ServiceFacts;
  readonly plugin: PluginFacts;
  readonly breakers: readonly BreakerRow[];
  /** Findings of `doctor` about it. */
  readonly findings: readonly LiveFinding[];
  /** Newest first. */
  readonly jobs: readonly Job[];
  /** The explanation of its newest job, if that is unfinished or failed. */
  readonly deeper?: Explanation | undefined;
}

/** Explains whether jobs of a plugin or of one of its commands run, and what holds them back. */
export function explainPlugin(facts: PluginExplanationFacts): Explanation {
  const { name, service, plugin, breakers, findings, jobs } = facts;
  const open = findings.length === 0 ? breakers.filter(({ state }) => state !== 'closed') : [];
  const causes = [
    ...orderRepairs([...listServiceCauses(service), ...listPluginCauses(plugin)]),
    ...findings.map(toFindingCause),
    ...open.map((row) => toFindingCause(breakerOpen.describe({ row }))),
  ];
  // The facts about the plugin and the findings of `doctor` can be the same.
  const blockers = [...new Map(causes.map((cause) => [cause.fact, cause])).values()];
  const state = blockers.length === 0 ? plugin.state : 'held';
  const subject = { kind: 'plugin', id: name, state } as const;
  const [first = describeLast(name, jobs[0]), ...others] = blockers;
  const origin = [
    ...(facts.deeper?.chain ?? []),
    ...jobs.slice(1, LISTED_MAX).map(describeListedJob),
  ];
  const more = [
    ...jobs.slice(0, 1).map(({ id }) => `ductile why ${id}`),
    `ductile job list --plugin ${quoteShell(plugin.name)}`,
  ];
  return toExplanation(subject, [first, ...others], origin, more, { blockers });
}

const LISTED_MAX = 4;

interface PipelineExplanationFacts {
  readonly name: string;
  readonly findings: readonly LiveFinding[];
  /** Newest first. */
  readonly runs: readonly Run[];
  /** The explanation of its newest run. */
  readonly deeper?: Explanation | undefined;
}

/** Explains the newest run of a pipeline, and lists what `doctor` finds about all of them. */
export function explainPipeline({
  name,
  findings,
  runs,
  deeper,
}: PipelineExplanationFacts): Explanation {
  const [newest] = runs;
  const subject = { kind: 'pipeline', id: name, state: newest?.status ?? 'unused' } as const;
  const blockers = findings.map(toFindingCause);
  const [first = describeNewest(name, newest, deeper), ...others] = blockers;
  const origin = [...(deeper?.chain ?? []), ...runs.slice(1, LISTED_MAX).map(describeListedRun)];
  const more = [
    ...(newest === undefined ? [] : [`ductile why ${newest.id}`]),
    `ductile run list --pipeline ${quoteShell(name)}`,
  ];
  return toExplanation(subject, [first, ...others], origin, more, { blockers });
}

function describeLast(name: string, job: Job | undefined): ExplanationCause {
  if (job === undefined) return { fact: `nothing holds ${name} back`, evidence: 'it has no jobs' };
  const fact = isTerminal(job.status)
    ? `nothing holds ${name} back; its last job is ${job.status}`
    : `nothing holds ${name} back; its newest job is ${job.status}`;
  return { fact, evidence: `job ${job.id}`, at: job.completedAt ?? job.createdAt };
}

function describeNewest(
  name: string,
  run: Run | undefined,
  deeper: Explanation | undefined,
): ExplanationCause {
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

function describeListedJob({
  id,
  plugin,
  command,
  status,
  completedAt,
  createdAt,
}: Job): ExplanationFact {
  const fact = `${plugin} ${command} ${status}`;
  return { fact, evidence: `job ${id}`, at: completedAt ?? createdAt };
}

function describeListedRun({ id, pipeline, status, completedAt, createdAt }: Run): ExplanationFact {
  return { fact: `${pipeline} ${status}`, evidence: `run ${id}`, at: completedAt ?? createdAt };
}
