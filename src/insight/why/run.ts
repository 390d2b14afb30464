import { quoteShell } from '../../base/text.ts';
import type { ApproveNode, Node } from '../../pipeline/language/graph.ts';
import type { Run } from '../../pipeline/run/run.ts';
import type { Wait } from '../../pipeline/run/waits.service.ts';
import {
  toFirstLine,
  formatCount,
  toExplanation,
  type ExplanationCause,
  type Explanation,
} from './explanation.ts';
import { describeOrigin, type OriginLink } from './origin.ts';
import type { ServiceFacts, WaitFacts } from './wait-facts.ts';
import { listWaitCauses, listServiceCauses } from './waits.ts';

export interface RunFacts {
  readonly run: Run;
  readonly links: readonly OriginLink[];
  readonly service: ServiceFacts;
  /** What its branches wait for. */
  readonly waits: readonly Wait[];
  /** Of its pipeline as it was when it began, by their names. */
  readonly nodes?: Readonly<Record<string, Node>> | undefined;
  /** Of the first of its jobs that are queued: what holds that. */
  readonly job?: WaitFacts | undefined;
  /** Runs of its concurrency key that are under way. */
  readonly rivals: readonly Run[];
  /** The run that goes on with its work. */
  readonly revivedAs?: string | undefined;
}

/** Why a run waits, runs, or ended as it did. */
export function explainRunRecord(facts: RunFacts): Explanation {
  const { run } = facts;
  const subject = { kind: 'run', id: run.id, state: run.status } as const;
  const origin = describeOrigin(facts.links);
  if (run.completedAt !== null) {
    return toExplanation(subject, [describeRunEnd(facts)], origin, remedies(facts));
  }
  const cancel = [`ductile run cancel ${run.id}`];
  const causes = run.status === 'queued' ? listQueuedCauses(facts) : listRunWaitCauses(facts);
  const [first, ...others] = causes;
  const parts = { blockers: causes };
  return toExplanation(subject, [first ?? describeMoving(run), ...others], origin, cancel, parts);
}

function describeMoving({ startedAt }: Run): ExplanationCause {
  return { fact: 'it is being moved on', evidence: 'all of its branches are', at: startedAt };
}

function listQueuedCauses({ run, service, rivals }: RunFacts): ExplanationCause[] {
  const { dueAt } = run;
  const held = listServiceCauses(service);
  if (dueAt !== null) {
    const due: ExplanationCause = {
      fact: 'its time has not come',
      evidence: `accepted from ${run.actor} for a later time`,
      at: dueAt,
      movesAt: dueAt,
      movesBy: 'it begins then',
    };
    return [due, ...held];
  }
  const named = rivals.slice(0, RIVALS_NAMED).map(({ id }) => `run ${id}`);
  const first = rivals[0];
  const rival: ExplanationCause = {
    fact: 'its turn among the runs of its concurrency key has not come',
    evidence:
      named.length === 0 ? 'it begins as soon as somebody looks' : `${named.join(', ')} first`,
    at: first?.startedAt ?? first?.createdAt,
    movesBy: 'it begins when one of them ends',
    commands: first === undefined ? [] : [`ductile why ${first.id}`],
  };
  return [...held, rival];
}

const RIVALS_NAMED = 3;

function listRunWaitCauses({ run, waits, job, nodes = {} }: RunFacts): ExplanationCause[] {
  const causes = waits.slice(0, WAITS_TOLD).map((wait) => toCause(run, wait, nodes));
  const [first, ...others] = causes;
  if (first === undefined) return [];
  // What holds its job is what holds it.
  const deeper = job === undefined ? [] : listWaitCauses(job);
  const more = waits.length - WAITS_TOLD;
  // What stands for no step stands for branches that were not looked at.
  const about = waits.at(-1)?.step === null ? 'at least ' : '';
  const fact = `${about}${formatCount(more, 'branch', 'branches')} more wait`;
  const rest = more <= 0 ? [] : [{ fact, evidence: `run ${run.id}` }];
  return [first, ...deeper, ...others, ...rest];
}

const WAITS_TOLD = 5;

function toCause(run: Run, wait: Wait, nodes: NonNullable<RunFacts['nodes']>): ExplanationCause {
  const place = wait.step === null ? '' : `step ${wait.step}: `;
  const branch = wait.branch === '' ? '' : `branch ${wait.branch}, `;
  const named = wait.job_id === null ? `run ${run.id}` : `job ${wait.job_id}`;
  const isAsked = wait.step_id !== null && wait.why.startsWith('somebody');
  return {
    fact: `${place}${toFirstLine(wait.why)}`,
    evidence: `${branch}${named}`,
    movesAt: wait.until,
    movesBy:
      isAsked && wait.until === null
        ? 'it goes on when somebody decides'
        : describeTimeout(nodes[wait.step ?? '']),
    commands: isAsked ? decisions(run, wait) : whyOf(wait),
  };
}

/** What a step does when its time has come, by its own rule. */
function describeTimeout(node: Node | undefined): string {
  if (node?.kind === 'approve') return `${describeDeadline(node)}, unless somebody decides before`;
  if (node?.kind !== 'wait' || node.signal === undefined) return 'it goes on then';
  const does = node.onError === 'halt' ? 'it halts then' : 'it goes on without it then';
  return `${does}, unless that comes before`;
}

function describeDeadline({ onTimeout, onError }: ApproveNode): string {
  if (onTimeout === 'halt') return 'it halts then';
  if (onTimeout === 'approve') return 'it is approved then';
  return onError === 'halt'
    ? 'it is rejected then, which halts it'
    : 'it is rejected then and goes on';
}

function decisions({ id }: Run, { step_id: stepId }: Wait): string[] {
  const named = quoteShell(stepId ?? '');
  return [`ductile run approve ${id} ${named}`, `ductile run reject ${id} ${named}`];
}

function whyOf({ job_id: jobId }: Wait): string[] {
  return jobId === null ? [] : [`ductile why ${jobId}`];
}

function describeRunEnd({ run }: RunFacts): ExplanationCause {
  const at = run.completedAt;
  if (run.status === 'succeeded') {
    return { fact: 'it succeeded', evidence: `pipeline ${run.pipeline}`, at };
  }
  if (run.status === 'cancelled') {
    return { fact: 'somebody cancelled it', evidence: `pipeline ${run.pipeline}`, at };
  }
  const step = run.haltedAtStep === null ? '' : ` at step ${run.haltedAtStep}`;
  const reason = run.haltReason === null ? '' : `: ${run.haltReason}`;
  return {
    fact: `it halted${step}${reason}`,
    evidence: toFirstLine(run.haltMessage ?? 'no error was told'),
    at,
  };
}

function remedies({ run, revivedAs }: RunFacts): string[] {
  if (revivedAs !== undefined) return [`ductile why ${revivedAs}`];
  const show = `ductile run show ${run.id}`;
  return run.status === 'succeeded' ? [show] : [`ductile run revive ${run.id}`, show];
}
