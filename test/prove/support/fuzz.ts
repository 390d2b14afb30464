/**
 * Unusual inputs, derived from valid ones: pieces are removed, doubled, inserted and swapped. An
 * input with a new kind of response is changed further, so the responses lead the inputs deeper
 * into the parser.
 */
import { between, type Random } from '../../support/crash/random.ts';

/** A parser, or several in a row. Bytes are a text with one character each. */
export interface Target {
  readonly name: string;
  /** The building blocks of the others. */
  readonly examples: readonly string[];
  /** The tokens that mean something to it, at any position. */
  readonly words: readonly string[];
  /** The share of all cases of a trial, compared with the other targets; slow ones get fewer. */
  readonly share?: number;
  /** Returns the kind of response in few words. Throws when a promise is broken. */
  readonly check: (input: string) => string | Promise<string>;
}

export interface FuzzResult {
  readonly cases: number;
  /** An input for each kind of response. */
  readonly found: ReadonlyMap<string, string>;
  readonly slowestMs: number;
}

const CHARS_MAX = 4000;
const CHANGES_MAX = 4;
const ANSWER_CHARS_MAX = 8000;
const KIND_CHARS_MAX = 60;
/**
 * The limit of one trial: if a response repeats pieces of the input, every one of them is a new
 * kind.
 */
const FOUND_MAX = 500;

/** Tries the corpus first, and then `cases` inputs derived from it. */
export async function fuzz(
  target: Target,
  corpus: readonly string[],
  random: Random,
  cases: number,
): Promise<FuzzResult> {
  const pool: string[] = [];
  const found = new Map<string, string>();
  let slowestMs = 0;
  const examples = [...target.examples, ...corpus];
  const total = examples.length + cases;
  for (let count = 0; count < total; count += 1) {
    const input = examples[count] ?? change(pool, target.words, random);
    const began = performance.now();
    const kind = verify(target, input);
    // Most results are synchronous, and awaiting one takes longer than computing it.
    const answer = kindOf(typeof kind === 'string' ? kind : await kind, input);
    slowestMs = Math.max(slowestMs, performance.now() - began);
    const isNew = found.size < FOUND_MAX && !found.has(answer);
    if (isNew) found.set(answer, input);
    if (isNew || count < examples.length) pool.push(input);
  }
  return { cases: total, found, slowestMs };
}

function verify(target: Target, input: string): string | Promise<string> {
  try {
    const kind = target.check(input);
    return typeof kind === 'string' ? kind : kind.catch((thrown) => blame(target, input, thrown));
  } catch (thrown) {
    return blame(target, input, thrown);
  }
}

async function blame(target: Target, input: string, thrown: unknown): Promise<never> {
  const small = await shrink(target, input);
  const what = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
  throw new Error(`${target.name} with ${JSON.stringify(small)}: ${what}`, { cause: thrown });
}

/** Shortens an input by removing pieces, as long as the fault stays the same. */
async function shrink(target: Target, input: string): Promise<string> {
  let small = input;
  for (let size = Math.ceil(small.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < small.length;) {
      const less = small.slice(0, at) + small.slice(at + size);
      if (await isBroken(target, less)) small = less;
      else at += size;
    }
  }
  return small;
}

async function isBroken(target: Target, input: string): Promise<boolean> {
  try {
    await target.check(input);
    return false;
  } catch {
    return true;
  }
}

/** Quoted input and numbers don't make another kind of response. */
function kindOf(answer: string, input: string): string {
  const own = input === '' ? answer : answer.slice(0, ANSWER_CHARS_MAX).replaceAll(input, '');
  return own
    .replaceAll(/"(?:\\.|[^"\\])*"?|'[^']*'|\{[^}]*\}/g, '"')
    .replaceAll(/\d+/g, '#')
    .slice(0, KIND_CHARS_MAX);
}

function change(pool: readonly string[], words: readonly string[], random: Random): string {
  let text = pick(pool, random);
  for (let times = between(random, 1, CHANGES_MAX); times > 0; times -= 1) {
    const how = pick(changes, random);
    text = how(text, { random, other: pick(pool, random), words }).slice(0, CHARS_MAX);
  }
  return text;
}

interface Means {
  readonly random: Random;
  readonly other: string;
  readonly words: readonly string[];
}

type Change = (text: string, means: Means) => string;

const changes: readonly Change[] = [
  (text, { random }) => cut(text, random, () => ''),
  (text, { random }) => cut(text, random, (taken) => taken + taken),
  (text, { random }) => cut(text, random, (taken) => taken.repeat(between(random, 2, 100))),
  (text, { random }) => cut(text, random, () => pick(signs, random)),
  (text, { random }) => cut(text, random, () => pick(numbers, random)),
  (text, { random, words }) => cut(text, random, () => pick(words, random)),
  (text, { random, words }) => put(text, random, pick(words, random)),
  (text, { random, words }) => put(text, random, pick(words, random)),
  (text, { random }) => put(text, random, pick(signs, random)),
  (text, { random }) => put(text, random, String.fromCharCode(between(random, 0, 255))),
  (text, { random, other }) => put(text, random, piece(other, random)),
  (text, { random, other }) =>
    text.slice(0, between(random, 0, text.length)) + other.slice(between(random, 0, other.length)),
  (text, { random }) => text.slice(0, between(random, 0, text.length)),
  (text, { random }) =>
    cut(text, random, (taken) =>
      random() < 0.5 ? taken.toUpperCase() : taken.split('').toReversed().join(''),
    ),
];

const signs = ' \t\n\r"\'\\{}[]():;,.*/?+-=$%&|<>!@#~^_`0\0'
  .split('')
  .concat('\u00e9 \u2028 \ufeff \ud800 \udfff \ud83d\ude00 \u202e \u0130 \uff11'.split(' '));

const numbers = '0 1 -1 7 32 59 60 64 255 256 65535 65536 1000000 2147483648 4294967296'
  .split(' ')
  .concat(
    '9007199254740991 9007199254740993 18446744073709551616 1e308 1e400 0.1 00 -0'.split(' '),
  );

function cut(text: string, random: Random, into: (taken: string) => string): string {
  const from = between(random, 0, Math.max(0, text.length - 1));
  const to = from + Math.ceil(random() ** 2 * Math.min(40, text.length - from));
  return text.slice(0, from) + into(text.slice(from, to)) + text.slice(to);
}

function put(text: string, random: Random, what: string): string {
  const at = between(random, 0, text.length);
  return text.slice(0, at) + what + text.slice(at);
}

function piece(text: string, random: Random): string {
  const from = between(random, 0, text.length);
  return text.slice(from, from + between(random, 1, 40));
}

function pick<T>(list: readonly T[], random: Random): T {
  const picked = list[Math.floor(random() * list.length)];
  if (picked === undefined) throw new Error('there is nothing to pick from');
  return picked;
}
