import * as z from 'zod';
import type { Timestamp } from '../../base/clock.ts';

export const kinds = [
  'job',
  'run',
  'schedule',
  'webhook',
  'signal',
  'directive',
  'delivery',
] as const;
export type Kind = (typeof kinds)[number];

const time = z.string().describe('UTC, ISO 8601 with milliseconds');

export const explanationShape = z.object({
  kind: z.enum(kinds),
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
  moves_at: time.nullable().describe('when it moves by itself, at the latest where that is known'),
  moves_by: z.string().nullable().describe('what would make it move by itself'),
  commands: z.array(z.string()).describe('what would move it, the best first'),
});

export type Explanation = z.output<typeof explanationShape>;

/** Something on record. */
export interface Fact {
  readonly fact: string;
  readonly evidence: string;
  readonly at?: Timestamp | null | undefined;
}

/** Why something does not move; when and by what it would, and what somebody could do. */
export interface Cause extends Fact {
  readonly movesAt?: Timestamp | null | undefined;
  readonly movesBy?: string | undefined;
  readonly commands?: readonly string[] | undefined;
}

export interface Subject {
  readonly kind: Kind;
  readonly id: string;
  readonly state: string;
}

/**
 * The first cause is the answer, those after it would hold it all the same, and behind them is what
 * it came from. It moves by itself when the last of its causes is over, if that is known of all.
 */
export function toExplanation(
  subject: Subject,
  causes: readonly [Cause, ...Cause[]],
  origin: readonly Fact[],
  more: readonly string[] = [],
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
    moves_at: known.length === times.length ? (known.at(-1) ?? null) : null,
    moves_by: first.movesBy ?? null,
    commands: [...new Set([...causes.flatMap(({ commands = [] }) => commands), ...more])],
  };
}

function toSentence(fact: string): string {
  const [begin = ''] = fact;
  const whole = `${begin.toUpperCase()}${fact.slice(begin.length)}`;
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

/** An argument as a shell takes it; what comes from outside must not become part of the command. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

/** Text of others may have many lines; a chain has short ones. */
export function firstLine(text: string, charsMax = 200): string {
  const [line = ''] = text.trim().split('\n');
  return line.length <= charsMax ? line : `${line.slice(0, charsMax)}…`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

const states: Readonly<Record<string, string>> = {
  succeeded: 'has succeeded',
  failed: 'has failed',
  timed_out: 'has timed out',
  halted: 'has halted',
  cancelled: 'was cancelled',
  skipped: 'was skipped',
};

/** That something is in a state, after its name. */
export function isInState(status: string): string {
  return states[status] ?? `is ${status}`;
}
