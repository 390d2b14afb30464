import type { Environment } from '@marcbachmann/cel-js';
import { compareNumbers, ExactNumber, toBigInt } from '../../base/exact-number.ts';
import { replaceExact } from '../../base/json.ts';
import type { Scope } from './scope.ts';

/**
 * Values as the Common Expression Language knows them: a whole number that a double can't hold is an
 * int, which has 64 bits, and a fraction is a double. What fits neither can only be compared.
 */
export function withIntegers(scope: Scope): Record<string, unknown> {
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
export function allowLargeNumbers(environment: Environment): void {
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
