import type { Job } from '../../job/job.ts';
import type { Run } from '../../pipeline/run/run.ts';
import { WEBHOOK_SOURCE, type Signal } from '../../signal/signal.ts';
import type { ExplanationFact } from './explanation.ts';

/** One step of a chain of causes, from what is asked about back towards what began it. */
export type OriginLink =
  | { readonly kind: 'job'; readonly job: Job }
  | { readonly kind: 'run'; readonly run: Run }
  | { readonly kind: 'signal'; readonly signal: Signal }
  /** The chain is longer than is told. */
  | { readonly kind: 'gap'; readonly rootJobId: string };

/** What a chain was read from, the thing itself first. */
export function describeOrigin(links: readonly OriginLink[]): ExplanationFact[] {
  return links.flatMap((link, index) => describeLink(link, index === 0));
}

function describeLink(link: OriginLink, isFirst: boolean): ExplanationFact[] {
  if (link.kind === 'gap') {
    return [{ fact: 'the chain goes further back', evidence: `to job ${link.rootJobId}` }];
  }
  if (link.kind === 'signal') return [describeOriginSignal(link.signal)];
  if (link.kind === 'run') return describeOriginRun(link.run, isFirst);
  return describeOriginJob(link.job, isFirst);
}

function describeOriginJob(job: Job, isFirst: boolean): ExplanationFact[] {
  const facts: ExplanationFact[] = [];
  const evidence = `job ${job.id}`;
  const name = `${job.plugin} ${job.command}`;
  if (!isFirst) facts.push({ fact: `${name} ${job.status}`, evidence, at: job.completedAt });
  if (job.retryOf !== null) {
    facts.push({ fact: 'it does the work of an ended job again', evidence: `job ${job.retryOf}` });
  }
  if (job.scheduleId !== null) {
    const schedule = `schedule ${job.plugin}/${job.scheduleId}`;
    facts.push({ fact: 'its schedule was due', evidence: schedule, at: job.createdAt });
  } else if (isBeginning(job)) facts.push(describeActor(job));
  if (job.runId !== null) {
    facts.push({ fact: `it is step ${job.stepId} of a run`, evidence: `run ${job.runId}` });
  }
  return facts;
}

function describeOriginRun(run: Run, isFirst: boolean): ExplanationFact[] {
  const facts: ExplanationFact[] = [];
  if (!isFirst) {
    const fact = `pipeline ${run.pipeline} ${run.status}`;
    facts.push({ fact, evidence: `run ${run.id}`, at: run.startedAt ?? run.createdAt });
  }
  if (run.revivedFrom !== null) {
    facts.push({ fact: 'it goes on with the work of a run', evidence: `run ${run.revivedFrom}` });
  }
  if (run.sourceEventId === null && run.parentJobId === null) facts.push(describeActor(run));
  return facts;
}

function describeOriginSignal({
  id,
  type,
  source,
  insertedAt,
  sourceEventId,
}: Signal): ExplanationFact {
  const webhookId = source.startsWith(WEBHOOK_SOURCE)
    ? source.slice(WEBHOOK_SOURCE.length)
    : undefined;
  const named = sourceEventId === null ? '' : `, which the sender calls ${sourceEventId}`;
  if (webhookId === undefined) {
    return { fact: `${source} said ${type}`, evidence: `signal ${id}`, at: insertedAt };
  }
  return {
    fact: `something was delivered to the webhook ${webhookId}`,
    evidence: `signal ${id}${named}`,
    at: insertedAt,
  };
}

function describeActor({
  actor,
  submittedBy,
  createdAt,
}: Pick<Job, 'actor' | 'submittedBy' | 'createdAt'>): ExplanationFact {
  return { fact: `${actor} asked for it`, evidence: `it came by ${submittedBy}`, at: createdAt };
}

function isBeginning({ sourceEventId, parentJobId, runId }: Job): boolean {
  return sourceEventId === null && parentJobId === null && runId === null;
}
