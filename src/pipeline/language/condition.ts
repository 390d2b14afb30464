import { compareNumbers, ExactNumber } from '../../base/parse-json.ts';
import { toCanonicalJson, isObject, type Json, type JsonObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { runWithinMs } from '../../base/timer.ts';
import { checkExpression, evaluateExpression } from './expression.ts';
import { PipelineFault } from '../run/run.ts';
import {
  lookUp,
  parsePath,
  pathText,
  type Path,
  type Root,
  type Scope,
  type Fault,
} from './template.ts';

/** What must hold, as plain JSON. */
export type Condition =
  | { readonly path: Path; readonly op: Op; readonly value: Json }
  | { readonly all: readonly Condition[] }
  | { readonly any: readonly Condition[] }
  | { readonly not: Condition }
  /** An expression of the Common Expression Language. */
  | { readonly cel: string };

const ops = {
  exists: 'nothing',
  eq: 'anything',
  neq: 'anything',
  in: 'a list',
  gt: 'a number',
  gte: 'a number',
  lt: 'a number',
  lte: 'a number',
  contains: 'text',
  startswith: 'text',
  endswith: 'text',
  regex: 'text',
} as const;
export type Op = keyof typeof ops;

export function evaluate(condition: Condition, scope: Scope): boolean {
  if ('cel' in condition) return evaluateExpression(condition, scope);
  if ('all' in condition) return condition.all.every((inner) => evaluate(inner, scope));
  if ('any' in condition) return condition.any.some((inner) => evaluate(inner, scope));
  if ('not' in condition) return !evaluate(condition.not, scope);
  const found = lookUp(condition.path, scope);
  if (condition.op === 'exists') return found !== undefined;
  return compare(condition, found ?? null);
}

/** Whether two values are the same, however their keys are ordered. */
export function isSame(a: Json, b: Json): boolean {
  if (a instanceof ExactNumber) return b instanceof ExactNumber && compareNumbers(a, b) === 0;
  return a === b || (typeof a === 'object' && toCanonicalJson(a) === toCanonicalJson(b));
}

/** Whether a value is the one that a case names; keys of a map are text whatever they stand for. */
export function isCase(value: Json, equals: Json): boolean {
  const isScalar = isNumber(value) || typeof value === 'boolean';
  return isSame(isScalar && typeof equals === 'string' ? String(value) : value, equals);
}

function compare(
  { path, op, value }: { readonly path: Path; readonly op: Op; readonly value: Json },
  found: Json,
): boolean {
  if (op === 'eq') return isSame(found, value);
  if (op === 'neq') return !isSame(found, value);
  if (op === 'in') return Array.isArray(value) && value.some((one) => isSame(found, one));
  if (isNumber(value)) {
    if (!isNumber(found)) throw wrongType(path, op, found, 'a number');
    return isInOrder(op, compareNumbers(found, value));
  }
  if (typeof found !== 'string') throw wrongType(path, op, found, 'text');
  return typeof value === 'string' && compareTexts(op, found, value);
}

function isNumber(value: Json | undefined): value is number | ExactNumber {
  return typeof value === 'number' || value instanceof ExactNumber;
}

/** `order` is less than zero when what was found is the smaller one. */
function isInOrder(op: Op, order: number): boolean {
  if (op === 'gt') return order > 0;
  if (op === 'gte') return order >= 0;
  return op === 'lt' ? order < 0 : order <= 0;
}

function compareTexts(op: Op, found: string, value: string): boolean {
  if (op === 'regex') return matches(found, value);
  const text = found.toLowerCase();
  const part = value.toLowerCase();
  if (op === 'contains') return text.includes(part);
  return op === 'startswith' ? text.startsWith(part) : text.endsWith(part);
}

/** The pattern is the operator's, but the text is anybody's, and some pairs of them never end. */
function matches(text: string, pattern: string): boolean {
  const whole = wholeText(pattern);
  if (isQuick(pattern)) return whole.test(text);
  try {
    return runWithinMs(limits.expressionMs, () => whole.test(text));
  } catch {
    throw new PipelineFault(`the pattern ${pattern} took longer than ${limits.expressionMs} ms`);
  }
}

/** With one repetition, and none of a group, a match takes time in proportion to the text. */
function isQuick(pattern: string): boolean {
  // What may be there or not is a repetition too; the sign behind a bracket that opens is none.
  const repetitions = pattern.match(/[*+{]|(?<!\()\?/g) ?? [];
  return repetitions.length < 2 && !/\)[*+?{]|\\[1-9k]/.test(pattern);
}

/** `(?i)` at the beginning is how some other languages say that case does not matter. */
function wholeText(pattern: string): RegExp {
  const isLoose = pattern.startsWith('(?i)');
  return new RegExp(`^(?:${isLoose ? pattern.slice(4) : pattern})$`, isLoose ? 'iu' : 'u');
}

function wrongType(path: Path, op: Op, found: Json, wanted: string): PipelineFault {
  return new PipelineFault(
    `${pathText(path)} is ${nameOf(found)}, but ${op} compares ${wanted} only`,
  );
}

function nameOf(value: Json): string {
  if (value === null) return 'null or missing';
  if (Array.isArray(value)) return 'a list';
  if (value instanceof ExactNumber) return 'a number';
  const names: Readonly<Record<string, string>> = {
    object: 'a map',
    string: 'text',
    number: 'a number',
    boolean: 'true or false',
  };
  return names[typeof value] ?? typeof value;
}

export type ParsedCondition =
  | { readonly ok: true; readonly condition: Condition }
  | { readonly ok: false; readonly faults: readonly Fault[] };

/** From either form in which a condition is written: a map, or the text of an expression. */
export function parseCondition(value: Json, allowed: readonly Root[]): ParsedCondition {
  const reading: Reading = { allowed, faults: [], parts: 0 };
  const condition = parse(value, [], reading);
  if (reading.parts > limits.conditionPartsMax) {
    const message = `must have at most ${limits.conditionPartsMax} parts`;
    return { ok: false, faults: [{ at: [], message }] };
  }
  const { faults } = reading;
  return faults.length > 0 || condition === undefined
    ? { ok: false, faults }
    : { ok: true, condition };
}

interface Reading {
  readonly allowed: readonly Root[];
  readonly faults: Fault[];
  parts: number;
}

function parse(value: Json, at: Fault['at'], reading: Reading): Condition | undefined {
  reading.parts += 1;
  const refuse = (message: string, ...below: string[]): undefined => {
    reading.faults.push({ at: [...at, ...below], message });
  };
  if (typeof value === 'string') {
    const fault = checkExpression(value, reading.allowed);
    return fault === undefined ? { cel: value } : refuse(fault);
  }
  if (typeof value === 'boolean') return { cel: String(value) };
  if (!isObject(value)) return refuse(SHAPES);
  if (at.length > 2 * limits.conditionDepthMax) return refuse('is nested too deeply');
  const keys = Object.keys(value);
  const [form] = keys;
  if (keys.length === 1 && (form === 'all' || form === 'any')) {
    const inner = parseList(value[form] ?? null, [...at, form], reading);
    return form === 'all' ? { all: inner } : { any: inner };
  }
  if (keys.length === 1 && form === 'not') {
    const inner = parse(value['not'] ?? null, [...at, 'not'], reading);
    return inner === undefined ? undefined : { not: inner };
  }
  const stray = keys.find((key) => !['path', 'op', 'value'].includes(key));
  if (stray !== undefined) return refuse(SHAPES);
  return parseComparison(value, reading, refuse);
}

const SHAPES = 'must be an expression, or have path and op, or exactly one of all, any and not';

function parseList(value: Json, at: Fault['at'], reading: Reading): Condition[] {
  if (!Array.isArray(value) || value.length === 0) {
    reading.faults.push({ at, message: 'must be a list of conditions' });
    return [];
  }
  return value.flatMap((inner, index) => parse(inner, [...at, index], reading) ?? []);
}

function parseComparison(
  written: JsonObject,
  { allowed }: Reading,
  refuse: (message: string, ...below: string[]) => undefined,
): Condition | undefined {
  const { path: pathWritten, op, value = null } = written;
  if (typeof pathWritten !== 'string') return refuse('must be a path such as payload.kind', 'path');
  const path = parsePath(pathWritten, allowed);
  if ('fault' in path) return refuse(path.fault, 'path');
  if (!isOp(op)) return refuse(`must be one of ${Object.keys(ops).join(', ')}`, 'op');
  const fault = checkValue(op, written['value']);
  return fault === undefined ? { path, op, value } : refuse(fault, 'value');
}

function isOp(op: unknown): op is Op {
  return typeof op === 'string' && Object.hasOwn(ops, op);
}

function checkValue(op: Op, value: Json | undefined): string | undefined {
  const wanted = ops[op];
  if (wanted === 'nothing') return value === undefined ? undefined : `has no place with ${op}`;
  if (value === undefined) return `is missing: ${op} compares with it`;
  const isRight =
    wanted === 'anything' ||
    (wanted === 'a list' && Array.isArray(value)) ||
    (wanted === 'a number' && isNumber(value)) ||
    (wanted === 'text' && typeof value === 'string');
  if (!isRight) return `must be ${wanted} for ${op}`;
  if (op !== 'regex' || typeof value !== 'string') return undefined;
  try {
    return void wholeText(value);
  } catch {
    return 'is not a regular expression';
  }
}
