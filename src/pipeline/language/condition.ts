import { compareNumbers, ExactNumber } from '../../base/parse-json.ts';
import { toCanonicalJson, isObject, type Json, type JsonObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { runWithinMs } from '../../base/timer.ts';
import { checkExpression, evaluateExpression } from './expression.ts';
import { PipelineFault } from '../run/halt.ts';
import {
  findValue,
  parsePath,
  formatPath,
  type ValuePath,
  type ScopeRoot,
  type Scope,
  type TemplateFault,
} from './template.ts';

/** A condition as plain JSON. */
export type Condition =
  | { readonly path: ValuePath; readonly op: ConditionOperator; readonly value: Json }
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
export type ConditionOperator = keyof typeof ops;

export function evaluateCondition(condition: Condition, scope: Scope): boolean {
  if ('cel' in condition) return evaluateExpression(condition, scope);
  if ('all' in condition) return condition.all.every((inner) => evaluateCondition(inner, scope));
  if ('any' in condition) return condition.any.some((inner) => evaluateCondition(inner, scope));
  if ('not' in condition) return !evaluateCondition(condition.not, scope);
  const found = findValue(condition.path, scope);
  if (condition.op === 'exists') return found !== undefined;
  return compare(condition, found ?? null);
}

/** Compares two values and ignores the order of keys. */
export function isSameJson(a: Json, b: Json): boolean {
  if (a instanceof ExactNumber) return b instanceof ExactNumber && compareNumbers(a, b) === 0;
  return a === b || (typeof a === 'object' && toCanonicalJson(a) === toCanonicalJson(b));
}

/** Compares a value with a case. Keys of a map are text, so scalars are compared as text. */
export function matchesCase(value: Json, equals: Json): boolean {
  const isScalar = isNumber(value) || typeof value === 'boolean';
  return isSameJson(isScalar && typeof equals === 'string' ? String(value) : value, equals);
}

function compare(
  {
    path,
    op,
    value,
  }: { readonly path: ValuePath; readonly op: ConditionOperator; readonly value: Json },
  found: Json,
): boolean {
  if (op === 'eq') return isSameJson(found, value);
  if (op === 'neq') return !isSameJson(found, value);
  if (op === 'in') return Array.isArray(value) && value.some((item) => isSameJson(found, item));
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

/** `order` is negative if the found value is smaller. */
function isInOrder(op: ConditionOperator, order: number): boolean {
  if (op === 'gt') return order > 0;
  if (op === 'gte') return order >= 0;
  return op === 'lt' ? order < 0 : order <= 0;
}

function compareTexts(op: ConditionOperator, found: string, value: string): boolean {
  if (op === 'regex') return matches(found, value);
  const text = found.toLowerCase();
  const part = value.toLowerCase();
  if (op === 'contains') return text.includes(part);
  return op === 'startswith' ? text.startsWith(part) : text.endsWith(part);
}

/**
 * Senders control the text, and some patterns take exponential time, so the match has a time limit.
 */
function matches(text: string, pattern: string): boolean {
  const whole = wholeText(pattern);
  if (isQuick(pattern)) return whole.test(text);
  try {
    return runWithinMs(limits.expressionMs, () => whole.test(text));
  } catch {
    throw new PipelineFault(`the pattern ${pattern} took longer than ${limits.expressionMs} ms`);
  }
}

/** A pattern with at most one repetition, and none of a group, takes linear time. */
function isQuick(pattern: string): boolean {
  // `?` counts as a repetition, but not directly after an opening bracket.
  const repetitions = pattern.match(/[*+{]|(?<!\()\?/g) ?? [];
  return repetitions.length < 2 && !/\)[*+?{]|\\[1-9k]/.test(pattern);
}

/** Supports `(?i)` at the beginning, which other languages use to ignore case. */
function wholeText(pattern: string): RegExp {
  const ignoresCase = pattern.startsWith('(?i)');
  return new RegExp(`^(?:${ignoresCase ? pattern.slice(4) : pattern})$`, ignoresCase ? 'iu' : 'u');
}

function wrongType(
  path: ValuePath,
  op: ConditionOperator,
  found: Json,
  expected: string,
): PipelineFault {
  return new PipelineFault(
    `${formatPath(path)} is ${nameOf(found)}, but ${op} compares ${expected} only`,
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
  | { readonly ok: false; readonly faults: readonly TemplateFault[] };

/** Parses both forms of a condition: a map, or the text of an expression. */
export function parseCondition(value: Json, allowed: readonly ScopeRoot[]): ParsedCondition {
  const reading: ConditionReader = { allowed, faults: [], parts: 0 };
  const condition = parsePart(value, [], reading);
  if (reading.parts > limits.conditionPartsMax) {
    const message = `must have at most ${limits.conditionPartsMax} parts`;
    return { ok: false, faults: [{ at: [], message }] };
  }
  const { faults } = reading;
  return faults.length > 0 || condition === undefined
    ? { ok: false, faults }
    : { ok: true, condition };
}

interface ConditionReader {
  readonly allowed: readonly ScopeRoot[];
  readonly faults: TemplateFault[];
  parts: number;
}

function parsePart(
  value: Json,
  at: TemplateFault['at'],
  reading: ConditionReader,
): Condition | undefined {
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
    const inner = parsePart(value['not'] ?? null, [...at, 'not'], reading);
    return inner === undefined ? undefined : { not: inner };
  }
  const stray = keys.find((key) => !['path', 'op', 'value'].includes(key));
  if (stray !== undefined) return refuse(SHAPES);
  return parseComparison(value, reading, refuse);
}

const SHAPES = 'must be an expression, or have path and op, or exactly one of all, any and not';

function parseList(value: Json, at: TemplateFault['at'], reading: ConditionReader): Condition[] {
  if (!Array.isArray(value) || value.length === 0) {
    reading.faults.push({ at, message: 'must be a list of conditions' });
    return [];
  }
  return value.flatMap((inner, index) => parsePart(inner, [...at, index], reading) ?? []);
}

function parseComparison(
  written: JsonObject,
  { allowed }: ConditionReader,
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

function isOp(op: unknown): op is ConditionOperator {
  return typeof op === 'string' && Object.hasOwn(ops, op);
}

function checkValue(op: ConditionOperator, value: Json | undefined): string | undefined {
  const wanted = ops[op];
  if (wanted === 'nothing') return value === undefined ? undefined : `is not allowed with ${op}`;
  if (value === undefined) return `is required for ${op}`;
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
