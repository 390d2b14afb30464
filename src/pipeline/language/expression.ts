import { Environment, type ParseResult } from '@marcbachmann/cel-js';
import { messageOf } from '../../base/errors.ts';
import { limits } from '../../base/limits.ts';
import { runWithinMs } from '../../base/timer.ts';
import { PipelineFault } from '../run/halt.ts';
import { type Scope, scopeRoots, type ScopeRoot } from './template.ts';
import { compareNumbers, ExactNumber, toBigInt } from '../../base/parse-json.ts';
import { replaceExact } from '../../base/json.ts';

/** Evaluates an expression of the Common Expression Language. */
export function evaluateExpression(condition: { readonly cel: string }, scope: Scope): boolean {
  const { cel } = condition;
  const program = programOf(condition);
  const values = withIntegers(scope);
  const run = (): unknown => program(values);
  let result: unknown;
  try {
    result = isCostly(cel) ? runWithinMs(limits.expressionMs, run) : run();
  } catch (thrown) {
    throw new PipelineFault(`${cel} cannot be evaluated: ${describeFailure(summaryOf(thrown))}`);
  }
  if (typeof result === 'boolean') return result;
  throw new PipelineFault(`${cel} is not true or false`);
}

/** Checks an expression without values. */
export function checkExpression(text: string, allowed: readonly ScopeRoot[]): string | undefined {
  if (text.trim() === '') return 'must not be blank';
  if (text.length > limits.expressionCharsMax) {
    return `must be at most ${limits.expressionCharsMax} characters`;
  }
  const { valid, type, error } = environmentFor(allowed).check(text);
  if (!valid) {
    const summary = summaryOf(error);
    return `is not an expression: ${summary}${suggestFix(summary, text, allowed)}`;
  }
  return type === 'bool' || type === 'dyn' ? undefined : `is a ${type}, not true or false`;
}

/** Suggests what was probably meant, if the library's message doesn't help. */
function suggestFix(summary: string, text: string, allowed: readonly ScopeRoot[]): string {
  if (summary.startsWith('has() invalid argument')) return '; write "key" in payload';
  const [, name] = /^Unknown variable: (.+)$/.exec(summary) ?? [];
  if (name === undefined) return '';
  // The library read the hyphen as a minus.
  const hyphened = [...text.matchAll(/\b(\w+(?:\.\w+)*)\.(\w+(?:-[A-Za-z_]\w*)+)/g)];
  const meant = hyphened.find(([, , key = '']) => key.split('-').includes(name));
  return meant === undefined
    ? `; values begin with ${allowed.join('. or ')}.`
    : `; a key with a hyphen is written ${meant[1]}["${meant[2]}"]`;
}

/**
 * True for patterns and nested loops, whose time can grow much faster than their input. The time
 * limit costs a quarter of a millisecond, so cheap expressions run without it.
 */
function isCostly(text: string): boolean {
  const loops = text.match(/\b(all|exists|exists_one|map|filter)\s*\(/g) ?? [];
  return loops.length > 1 || /\bmatches\s*\(/.test(text);
}

/** Keyed by the condition, so that programs are collected together with their pipeline. */
const programs = new WeakMap<object, ParseResult>();

function programOf(condition: { readonly cel: string }): ParseResult {
  const known = programs.get(condition);
  if (known !== undefined) return known;
  const created = environmentFor(scopeRoots).parse(condition.cel);
  programs.set(condition, created);
  return created;
}

const environments = new Map<string, Environment>();

function environmentFor(allowed: readonly ScopeRoot[]): Environment {
  const key = allowed.join(' ');
  const known = environments.get(key);
  if (known !== undefined) return known;
  const created = new Environment({
    homogeneousAggregateLiterals: false,
    enableOptionalTypes: true,
  });
  for (const root of allowed) created.registerVariable(root, root === 'signal' ? 'dyn' : 'map');
  allowMixedNumbers(created);
  allowLargeNumbers(created);
  environments.set(key, created);
  return created;
}

/** Every number in JSON is a double. Without this, `n + 1` would have to be written `n + 1.0`. */
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

/** Describes the two faults that values can cause in our own words. */
function describeFailure(summary: string): string {
  const [, key] = /^no such key: (.+)$/i.exec(summary) ?? [];
  if (key !== undefined) return `there is no ${key}`;
  const [, types] = /^no such overload: (.+)$/i.exec(summary) ?? [];
  if (types === undefined) return summary;
  return `${types.replaceAll(/dyn<([^<>]*)>/g, '$1')} is not supported`;
}

/** Drops the excerpt of the expression, which takes several lines. */
function summaryOf(thrown: unknown): string {
  const summary: unknown = thrown instanceof Error && 'summary' in thrown ? thrown.summary : null;
  return typeof summary === 'string' ? summary : messageOf(thrown);
}

/**
 * Converts values for the Common Expression Language. A whole number that a double can't hold
 * becomes a 64-bit int, and a fraction becomes a double. Other numbers can only be compared.
 */
function withIntegers(scope: Scope): Record<string, unknown> {
  return Object.fromEntries(Object.entries(scope).map(([root, value]) => [root, fromRoot(value)]));
}

/** Keyed by the root. The conditions of a step see the same payload, which never changes. */
const converted = new WeakMap<object, unknown>();

function fromRoot(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const known = converted.get(value);
  if (known !== undefined) return known;
  const result = replaceExact(value, toCelNumber);
  converted.set(value, result);
  return result;
}

function toCelNumber(number: ExactNumber): bigint | number | ExactNumber {
  const whole = toBigInt(number);
  if (whole !== undefined) return BigInt.asIntN(64, whole) === whole ? whole : number;
  const double = Number(number.text);
  return Number.isFinite(double) ? double : number;
}

const LARGE = 'large_number';
type Operand = number | bigint | ExactNumber;

/**
 * Allows comparisons of numbers that are neither int nor double. Other operators are type errors.
 */
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
  // The library adds the same operators with exchanged operands.
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
