import { quoteShell } from '../../base/text.ts';
import * as z from 'zod';
import type { Timestamp } from '../../base/clock.ts';

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
  id: z.string().describe('of a schedule: <plugin>/<schedule id>'),
  state: z.string(),
  verdict: z.string().describe('the answer in one sentence'),
  chain: z
    .array(
      z.object({
        fact: z.string(),
        evidence: z.string().describe('what on record says so'),
        at: time.optional(),
      }),
    )
    .describe('from what is asked about back to what began it'),
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
    .describe('everything that holds it back, in the order of repair; empty when nothing does'),
  progress: z
    .object({
      running_ms: z.int().describe('how long its attempt has run'),
      silent_ms: z.int().describe('since its start, or the last signal or job that it caused'),
      median_ms: z.int().nullable().describe('of the last successful attempts of its command'),
      p95_ms: z.int().nullable(),
      attempts: z.int().describe('how many attempts that is from'),
    })
    .nullable()
    .describe('of a running job'),
  moves_at: time.nullable().describe('when it moves by itself, at the latest where that is known'),
  moves_by: z.string().nullable().describe('what would make it move by itself'),
  commands: z.array(z.string()).describe('what would move it, the best first'),
});

export type Explanation = z.output<typeof explanationShape>;

/** Something on record. */
export interface ExplanationFact {
  readonly fact: string;
  readonly evidence: string;
  readonly at?: Timestamp | null | undefined;
}

/**
 * What a blocker belongs to, in the order in which blockers have to be repaired. `switch` stands for a
 * pause or something disabled: work starts as soon as it is undone, so that comes last.
 */
export const repairOrder = ['ledger', 'secret', 'plugin', 'service', 'switch'] as const;

/** Why something does not move; when and by what it would, and what somebody could do. */
export interface ExplanationCause extends ExplanationFact {
  readonly repair?: (typeof repairOrder)[number] | undefined;
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
 * The first cause is the answer, those after it would hold it all the same, and behind them is what
 * it came from. It moves by itself when the last of its causes is over, if that is known of all.
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
    chain: [...causes, ...origin].map(({ fact, evidence, at }) => ({
      fact,
      evidence,
      ...(at === undefined || at === null ? {} : { at }),
    })),
    blockers: blockers.map(showBlocker),
    progress,
    moves_at: known.length === times.length ? (known.at(-1) ?? null) : null,
    moves_by: first.movesBy ?? null,
    commands: [...new Set([...causes.flatMap(({ commands = [] }) => commands), ...more])],
  };
}

/** Parts that only some explanations have. */
export interface ExplanationParts {
  /** What holds the subject back, in the order of repair. */
  readonly blockers: readonly ExplanationCause[];
  readonly progress: Explanation['progress'];
}

function showBlocker({ fact, evidence, at, movesAt, movesBy, commands = [] }: ExplanationCause) {
  return {
    fact,
    evidence,
    ...(at === undefined || at === null ? {} : { at }),
    moves_at: movesAt ?? null,
    moves_by: movesBy ?? null,
    commands: [...commands],
  };
}

/** A fact that begins with a configuration key keeps the key as it is. */
function toSentence(fact: string): string {
  const [begin = ''] = fact;
  const isKey = /^[\w-]+[.[]\S/.test(fact);
  const whole = isKey ? fact : `${begin.toUpperCase()}${fact.slice(begin.length)}`;
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

/** Text of others may have many lines; a chain has short ones. */
export function toFirstLine(text: string, charsMax = 200): string {
  const [line = ''] = text.trim().split('\n');
  return line.length <= charsMax ? line : `${line.slice(0, charsMax)}…`;
}

export function formatCount(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** A change in the files is active after a reload. */
export function formatSetCommand(key: string, value: string): string {
  const assignment = quoteShell(`${key}=${value}`);
  return `ductile config set ${assignment} --apply && ductile system reload`;
}
