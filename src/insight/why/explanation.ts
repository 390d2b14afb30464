import { quoteShell } from '../../base/text.ts';
import * as z from 'zod';
import type { Timestamp } from '../../base/clock.ts';
import type { Job } from '../../job/job.ts';
import type { RepairPart } from '../finding.ts';
import type { Run } from '../../pipeline/run/run.ts';
import { WEBHOOK_SOURCE, type Signal } from '../../signal/signal.ts';

export const subjectKinds = [
  'job',
  'run',
  'schedule',
  'webhook',
  'signal',
  'directive',
  'delivery',
  'incident',
  'finding',
  'plugin',
  'pipeline',
] as const;
export type SubjectKind = (typeof subjectKinds)[number];

const time = z.string().describe('UTC, ISO 8601 with milliseconds');

export const explanationShape = z.object({
  kind: z.enum(subjectKinds),
  id: z.string().describe('id of the object; for a schedule, <plugin>/<schedule id>'),
  state: z.string(),
  verdict: z.string().describe('explanation in one sentence'),
  chain: z
    .array(
      z.object({
        fact: z.string(),
        evidence: z.string().describe('record that proves the fact'),
        at: time.optional(),
      }),
    )
    .describe('facts from the object back to its first cause'),
  blockers: z
    .array(
      z.object({
        fact: z.string(),
        evidence: z.string(),
        at: time.optional(),
        moves_at: time.nullable(),
        moves_by: z.string().nullable(),
        commands: z.array(z.string()),
      }),
    )
    .describe('causes that hold it back, in the order of repair; empty if there are none'),
  progress: z
    .object({
      running_ms: z.int().describe('duration of its attempt so far'),
      silent_ms: z
        .int()
        .describe('time since its start, or since the last signal or job that it caused'),
      median_ms: z
        .int()
        .nullable()
        .describe('median of the last successful attempts of its command'),
      p95_ms: z.int().nullable(),
      attempts: z.int().describe('number of attempts that the figures are from'),
    })
    .nullable()
    .describe('progress of a running job; null for all others'),
  moves_at: time
    .nullable()
    .describe('latest time at which it continues by itself; null if unknown'),
  moves_by: z.string().nullable().describe('event that makes it continue'),
  commands: z.array(z.string()).describe('commands that help, best first'),
});

export type Explanation = z.output<typeof explanationShape>;

/** A fact, and the record that proves it. */
export interface ExplanationFact {
  readonly fact: string;
  readonly evidence: string;
  readonly at?: Timestamp | null | undefined;
}

/** A reason why the subject doesn't move, what ends it, and the commands that help. */
export interface ExplanationCause extends ExplanationFact {
  readonly repair?: RepairPart | undefined;
  readonly movesAt?: Timestamp | null | undefined;
  readonly movesBy?: string | undefined;
  readonly commands?: readonly string[] | undefined;
}

export interface ExplainedSubject {
  readonly kind: SubjectKind;
  readonly id: string;
  readonly state: string;
}

/**
 * Builds an explanation. The first cause is the verdict, the others would still hold the subject back
 * without it, and the origin follows. `moves_at` is the latest end, if all causes have a known end.
 */
export function toExplanation(
  subject: ExplainedSubject,
  causes: readonly [ExplanationCause, ...ExplanationCause[]],
  origin: readonly ExplanationFact[],
  more: readonly string[] = [],
  { blockers = [], progress = null }: Partial<ExplanationParts> = {},
): Explanation {
  const [first] = causes;
  const times = causes.map(({ movesAt }) => movesAt ?? null);
  const known = times.filter((at) => at !== null).toSorted();
  return {
    ...subject,
    verdict: toSentence(first.fact),
    chain: [...causes, ...origin].map(showFact),
    blockers: blockers.map(showBlocker),
    progress,
    moves_at: known.length === times.length ? (known.at(-1) ?? null) : null,
    moves_by: first.movesBy ?? null,
    commands: [...new Set([...causes.flatMap(({ commands = [] }) => commands), ...more])],
  };
}

/** The parts that only some explanations have. */
interface ExplanationParts {
  /** In the order of repair. */
  readonly blockers: readonly ExplanationCause[];
  readonly progress: Explanation['progress'];
}

function showFact({ fact, evidence, at }: ExplanationFact) {
  return { fact, evidence, ...(at === undefined || at === null ? {} : { at }) };
}

function showBlocker({ movesAt, movesBy, commands = [], ...fact }: ExplanationCause) {
  const moves = { moves_at: movesAt ?? null, moves_by: movesBy ?? null };
  return { ...showFact(fact), ...moves, commands: [...commands] };
}

/** Makes a fact a sentence. A configuration key at its start stays in lower case. */
function toSentence(fact: string): string {
  const [begin = ''] = fact;
  const isKey = /^[\w-]+[.[]\S/.test(fact);
  const whole = isKey ? fact : `${begin.toUpperCase()}${fact.slice(begin.length)}`;
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

/** Shortens a text that plugins or people wrote. */
export function toFirstLine(text: string, charsMax = 200): string {
  const [line = ''] = text.trim().split('\n');
  return line.length <= charsMax ? line : `${line.slice(0, charsMax)}…`;
}

export function formatCount(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** Returns the command that changes a key in the files and reloads them. */
export function formatSetCommand(key: string, value: string): string {
  const assignment = quoteShell(`${key}=${value}`);
  return `ductile config set ${assignment} --apply && ductile system reload`;
}

/** A link of a chain of causes, which leads from the subject back to its first cause. */
export type OriginLink =
  | { readonly kind: 'job'; readonly job: Job }
  | { readonly kind: 'run'; readonly run: Run }
  | { readonly kind: 'signal'; readonly signal: Signal }
  /** The rest of a chain that is too long to show. */
  | { readonly kind: 'gap'; readonly rootJobId: string };

/** Describes a chain of causes, the subject first. */
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
    facts.push({ fact: 'it retries an ended job', evidence: `job ${job.retryOf}` });
  }
  if (job.scheduleId !== null) {
    const schedule = `schedule ${job.plugin}/${job.scheduleId}`;
    facts.push({ fact: 'its schedule was due', evidence: schedule, at: job.createdAt });
  } else if (isFirstCause(job)) facts.push(describeActor(job));
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
    facts.push({ fact: 'it continues the work of a run', evidence: `run ${run.revivedFrom}` });
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
  const named = sourceEventId === null ? '' : `, event ${sourceEventId} of the sender`;
  if (webhookId === undefined) {
    return { fact: `${source} emitted ${type}`, evidence: `signal ${id}`, at: insertedAt };
  }
  return {
    fact: `the webhook ${webhookId} received a delivery`,
    evidence: `signal ${id}${named}`,
    at: insertedAt,
  };
}

function describeActor({
  actor,
  submittedBy,
  createdAt,
}: Pick<Job, 'actor' | 'submittedBy' | 'createdAt'>): ExplanationFact {
  return { fact: `${actor} requested it`, evidence: `submitted by ${submittedBy}`, at: createdAt };
}

function isFirstCause({ sourceEventId, parentJobId, runId }: Job): boolean {
  return sourceEventId === null && parentJobId === null && runId === null;
}
