import { quoteShell } from '../../base/text.ts';
import type { ApproveNode, Node } from '../../pipeline/language/graph.ts';
import type { Run } from '../../pipeline/run/run.ts';
import type { Wait } from '../../pipeline/run/waits.service.ts';
import {
  toFirstLine,
  toExplanation,
  type ExplanationCause,
  type Explanation,
  describeOrigin,
  type OriginLink,
} from './explanation.ts';
import { approvalWaiting, runHalted } from '../findings/runs.ts';
import { toFindingCause } from './finding.ts';
import type { ServiceFacts, WaitFacts } from './facts.ts';
import { listWaitCauses, listServiceCauses } from './waits.ts';

/** The records about a run. */
export interface RunFacts {
  readonly run: Run;
  readonly links: readonly OriginLink[];
  readonly service: ServiceFacts;
  /** The waits of its branches. */
  readonly waits: readonly Wait[];
  /** The nodes of its pipeline when it started, by name. */
  readonly nodes?: Readonly<Record<string, Node>> | undefined;
  /** The facts about the queued job that its first branch waits for. */
  readonly job?: WaitFacts | undefined;
  /** Runs with the same concurrency key that haven't ended. */
  readonly rivals: readonly Run[];
  /** The run that revived it. */
  readonly revivedAs?: string | undefined;
}

/** Explains why a run waits, runs, or ended as it did. */
export function explainRunRecord(facts: RunFacts): Explanation {
  const { run } = facts;
  const subject = { kind: 'run', id: run.id, state: run.status } as const;
  const origin = describeOrigin(facts.links);
  if (run.completedAt !== null) {
    return toExplanation(subject, [describeRunEnd(facts)], origin, listCommands(facts));
  }
  const cancel = [`ductile run cancel ${run.id}`];
  const causes = run.status === 'queued' ? listQueuedCauses(facts) : listRunWaitCauses(facts);
  const [first, ...others] = causes;
  const parts = { blockers: causes };
  return toExplanation(subject, [first ?? describeMoving(run), ...others], origin, cancel, parts);
}

function describeMoving({ startedAt }: Run): ExplanationCause {
  return { fact: 'it is running', evidence: 'none of its branches waits', at: startedAt };
}

function listQueuedCauses({ run, service, rivals }: RunFacts): ExplanationCause[] {
  const { dueAt } = run;
  const held = listServiceCauses(service);
  if (dueAt !== null) {
    const due: ExplanationCause = {
      fact: 'it is not due yet',
      evidence: `${run.actor} requested it for a later time`,
      at: dueAt,
      movesAt: dueAt,
      movesBy: 'it starts then',
    };
    return [due, ...held];
  }
  const named = rivals.slice(0, RIVALS_SHOWN).map(({ id }) => `run ${id}`);
  const first = rivals[0];
  const rival: ExplanationCause = {
    fact: 'it waits for other runs with its concurrency key',
    evidence:
      named.length === 0 ? 'it starts at the next check' : `running first: ${named.join(', ')}`,
    at: first?.startedAt ?? first?.createdAt,
    movesBy: 'it starts when one of them ends',
    commands: first === undefined ? [] : [`ductile why ${first.id}`],
  };
  return [...held, rival];
}

const RIVALS_SHOWN = 3;

function listRunWaitCauses({ run, waits, job, nodes = {} }: RunFacts): ExplanationCause[] {
  const causes = waits.slice(0, WAITS_SHOWN).map((wait) => toCause(run, wait, nodes));
  const [first, ...others] = causes;
  if (first === undefined) return [];
  // The causes of its queued job hold the run back, too.
  const deeper = job === undefined ? [] : listWaitCauses(job);
  const more = waits.length - WAITS_SHOWN;
  // A wait without a step stands for the branches that weren't read.
  const about = waits.at(-1)?.step === null ? 'at least ' : '';
  const fact = `${about}${more} more ${more === 1 ? 'branch waits' : 'branches wait'}`;
  const rest = more <= 0 ? [] : [{ fact, evidence: `run ${run.id}` }];
  return [first, ...deeper, ...others, ...rest];
}

const WAITS_SHOWN = 5;

function toCause(run: Run, wait: Wait, nodes: NonNullable<RunFacts['nodes']>): ExplanationCause {
  const place = wait.step === null ? '' : `step ${wait.step}: `;
  const branch = wait.branch === '' ? '' : `branch ${wait.branch}, `;
  const named = wait.job_id === null ? `run ${run.id}` : `job ${wait.job_id}`;
  const node = nodes[wait.step ?? ''];
  const isApproval = wait.step_id !== null && node?.kind === 'approve';
  return {
    fact: `${place}${toFirstLine(wait.why)}`,
    evidence: `${branch}${named}`,
    movesAt: wait.until,
    movesBy: isApproval && wait.until === null ? approvalWaiting.fix : describeTimeout(node),
    commands: isApproval ? listDecisions(run, wait) : listWhyCommands(wait),
  };
}

/** Describes what a step does at its deadline. */
function describeTimeout(node: Node | undefined): string {
  if (node?.kind === 'approve') return `${describeDeadline(node)}, unless a person decides before`;
  if (node?.kind !== 'wait' || node.signal === undefined) return 'it continues then';
  const does = node.onError === 'halt' ? 'it halts then' : 'it continues without the signal then';
  return `${does}, unless the signal arrives before`;
}

function describeDeadline({ onTimeout, onError }: ApproveNode): string {
  if (onTimeout === 'halt') return 'it halts then';
  if (onTimeout === 'approve') return 'it is approved then';
  return onError === 'halt'
    ? 'it is rejected then, which halts it'
    : 'it is rejected then and continues';
}

function listDecisions({ id }: Run, { step_id: stepId }: Wait): string[] {
  const named = quoteShell(stepId ?? '');
  return [`ductile run approve ${id} ${named}`, `ductile run reject ${id} ${named}`];
}

function listWhyCommands({ job_id: jobId }: Wait): string[] {
  return jobId === null ? [] : [`ductile why ${jobId}`];
}

function describeRunEnd({ run, revivedAs }: RunFacts): ExplanationCause {
  const at = run.completedAt;
  if (run.status === 'succeeded') {
    return { fact: 'it succeeded', evidence: `pipeline ${run.pipeline}`, at };
  }
  if (run.status === 'cancelled') {
    return { fact: 'it was cancelled', evidence: `pipeline ${run.pipeline}`, at };
  }
  const reason = toFirstLine(run.haltMessage ?? run.haltReason ?? 'no text was recorded');
  const finding = runHalted.describe({ pipeline: run.pipeline, halted: [run], reason });
  const cause = toFindingCause(finding);
  if (revivedAs === undefined) return cause;
  return { ...cause, movesBy: undefined, commands: [] };
}

function listCommands({ run, revivedAs }: RunFacts): string[] {
  if (revivedAs !== undefined) return [`ductile why ${revivedAs}`];
  const show = `ductile run show ${run.id}`;
  return run.status === 'succeeded' ? [show] : [`ductile run revive ${run.id}`, show];
}
