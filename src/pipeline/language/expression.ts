import { Environment, type ParseResult } from '@marcbachmann/cel-js';
import { messageOf } from '../../base/errors.ts';
import { limits } from '../../base/limits.ts';
import { runWithinMs } from '../../base/timer.ts';
import { PipelineFault } from '../run/run.ts';
import { roots, type Root, type Scope } from './template.ts';
import { compareNumbers, ExactNumber, toBigInt } from '../../base/parse-json.ts';
import { replaceExact } from '../../base/json.ts';

/** Whether an expression of the Common Expression Language holds. */
export function evaluateExpression(condition: { readonly cel: string }, scope: Scope): boolean {
  const { cel } = condition;
  const program = programOf(condition);
  const values = withIntegers(scope);
  const run = (): unknown => program(values);
  let answer: unknown;
  try {
    answer = isCostly(cel) ? runWithinMs(limits.expressionMs, run) : run();
  } catch (thrown) {
    throw new PipelineFault(`${cel} cannot be told: ${inWords(summaryOf(thrown))}`);
  }
  if (typeof answer === 'boolean') return answer;
  throw new PipelineFault(`${cel} is not true or false`);
}

/** What is wrong with an expression, as far as that can be told without values. */
export function checkExpression(text: string, allowed: readonly Root[]): string | undefined {
  if (text.trim() === '') return 'must not be blank';
  if (text.length > limits.expressionCharsMax) {
    return `must be at most ${limits.expressionCharsMax} characters`;
  }
  const { valid, type, error } = environmentFor(allowed).check(text);
  if (!valid) {
    const summary = summaryOf(error);
    return `is not an expression: ${summary}${adviceOn(summary, text, allowed)}`;
  }
  return type === 'bool' || type === 'dyn' ? undefined : `is a ${type}, not true or false`;
}

/** What was probably meant, where the language's own words do not lead there. */
function adviceOn(summary: string, text: string, allowed: readonly Root[]): string {
  if (summary.startsWith('has() invalid argument')) return '; write "key" in payload';
  const [, name] = /^Unknown variable: (.+)$/.exec(summary) ?? [];
  if (name === undefined) return '';
  // It was read as a difference.
  const hyphened = [...text.matchAll(/\b(\w+(?:\.\w+)*)\.(\w+(?:-[A-Za-z_]\w*)+)/g)];
  const meant = hyphened.find(([, , key = '']) => key.split('-').includes(name));
  return meant === undefined
    ? `; values begin with ${allowed.join('. or ')}.`
    : `; a key with a hyphen is written ${meant[1]}["${meant[2]}"]`;
}

/**
 * Whether the time can grow much faster than the values: with patterns, and loops within loops. The
 * guard takes a quarter of a millisecond, so what cannot get out of hand goes without.
 */
function isCostly(text: string): boolean {
  const loops = text.match(/\b(all|exists|exists_one|map|filter)\s*\(/g) ?? [];
  return loops.length > 1 || /\bmatches\s*\(/.test(text);
}

/** By the condition itself, so that it is forgotten together with its pipeline. */
const programs = new WeakMap<object, ParseResult>();

function programOf(condition: { readonly cel: string }): ParseResult {
  const known = programs.get(condition);
  if (known !== undefined) return known;
  const made = environmentFor(roots).parse(condition.cel);
  programs.set(condition, made);
  return made;
}

const environments = new Map<string, Environment>();

function environmentFor(allowed: readonly Root[]): Environment {
  const key = allowed.join(' ');
  const known = environments.get(key);
  if (known !== undefined) return known;
  const made = new Environment({ homogeneousAggregateLiterals: false, enableOptionalTypes: true });
  for (const root of allowed) made.registerVariable(root, root === 'signal' ? 'dyn' : 'map');
  allowMixedNumbers(made);
  allowLargeNumbers(made);
  environments.set(key, made);
  return made;
}

/** Every number in JSON is a double, and nobody should have to write 1.0 to add one to it. */
function allowMixedNumbers(environment: Environment): void {
  const operators: Readonly<Record<string, (a: number, b: number) => number>> = {
    '+': (a, b) => a + b,
    '-': (a, b) => a - b,
    '*': (a, b) => a * b,
    '/': (a, b) => a / b,
    '%': (a, b) => a % b,
  };
  for (const [sign, apply] of Object.entries(operators)) {
    const handler = (a: number | bigint, b: number | bigint): number => apply(Number(a), Number(b));
    environment.registerOperator(`double ${sign} int`, handler);
    environment.registerOperator(`int ${sign} double`, handler);
    if (sign === '%') environment.registerOperator('double % double', handler);
  }
}

/** The two faults that values can have, said as everywhere else. */
function inWords(summary: string): string {
  const [, key] = /^no such key: (.+)$/i.exec(summary) ?? [];
  if (key !== undefined) return `there is no ${key}`;
  const [, types] = /^no such overload: (.+)$/i.exec(summary) ?? [];
  if (types === undefined) return summary;
  return `there is no ${types.replaceAll(/dyn<([^<>]*)>/g, '$1')}`;
}

/** Without the drawing of the place in the text, which takes several lines. */
function summaryOf(thrown: unknown): string {
  const summary: unknown = thrown instanceof Error && 'summary' in thrown ? thrown.summary : null;
  return typeof summary === 'string' ? summary : messageOf(thrown);
}

/**
 * Values as the Common Expression Language knows them: a whole number that a double can't hold is an
 * int, which has 64 bits, and a fraction is a double. What fits neither can only be compared.
 */
function withIntegers(scope: Scope): Record<string, unknown> {
  return Object.fromEntries(Object.entries(scope).map(([root, value]) => [root, fromRoot(value)]));
}

/** By the root itself: the conditions of a step look at the same payload, which is never changed. */
const converted = new WeakMap<object, unknown>();

function fromRoot(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  let made = converted.get(value);
  if (made === undefined) {
    made = replaceExact(value, toCelNumber);
    converted.set(value, made);
  }
  return made;
}

function toCelNumber(number: ExactNumber): bigint | number | ExactNumber {
  const whole = toBigInt(number);
  if (whole !== undefined) return BigInt.asIntN(64, whole) === whole ? whole : number;
  const double = Number(number.text);
  return Number.isFinite(double) ? double : number;
}

const LARGE = 'large_number';
type Operand = number | bigint | ExactNumber;

/** Comparisons of numbers that are neither an int nor a double; all else is refused by its type. */
function allowLargeNumbers(environment: Environment): void {
  environment.registerType(LARGE, { ctor: ExactNumber, fields: {} });
  const orders: Readonly<Record<string, (order: number) => boolean>> = {
    '<': (order) => order < 0,
    '<=': (order) => order <= 0,
    '>': (order) => order > 0,
    '>=': (order) => order >= 0,
  };
  for (const [sign, isMet] of Object.entries(orders)) {
    const handler = (a: Operand, b: Operand): boolean => isMet(compareOperands(a, b));
    environment.registerOperator(`${LARGE} ${sign} ${LARGE}: bool`, handler);
    for (const other of ['int', 'double']) {
      environment.registerOperator(`${LARGE} ${sign} ${other}: bool`, handler);
      environment.registerOperator(`${other} ${sign} ${LARGE}: bool`, handler);
    }
  }
  const isSame = (a: Operand, b: Operand): boolean => compareOperands(a, b) === 0;
  // The library adds the same with its sides exchanged.
  for (const other of [LARGE, 'int', 'double']) {
    environment.registerOperator(`${LARGE} == ${other}: bool`, isSame);
  }
  environment.registerFunction(`string(${LARGE}): string`, (number: ExactNumber) => number.text);
}

function compareOperands(a: Operand, b: Operand): number {
  return compareNumbers(toNumber(a), toNumber(b));
}

function toNumber(value: Operand): number | ExactNumber {
  return typeof value === 'bigint' ? new ExactNumber(String(value)) : value;
}
