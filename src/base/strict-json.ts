import { isShortNumber, endOfNumber, endOfString, isDigit, parseExactly } from './parse-json.ts';
import { describeUnsafeJson, isObject } from './json.ts';
import { limits } from './limits.ts';

export type ParsedJson =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly fault: string };

/**
 * Parses JSON from an untrusted sender. It refuses what other programs read differently, and what costs
 * far more than its size suggests: deep nesting, very many keys or elements, a key twice in one
 * object, very long numbers, and everything that a ledger can't keep. Numbers are kept exactly.
 */
export function parseStrictJson(text: string): ParsedJson {
  const scanned = scan(text);
  if (scanned.fault !== undefined) return { ok: false, fault: scanned.fault };
  let value: unknown;
  try {
    value = scanned.mayBeInexact ? parseExactly(text) : JSON.parse(text);
  } catch {
    return { ok: false, fault: 'is not JSON' };
  }
  const unsafe = describeUnsafeJson(value, limits.jsonDepthMax);
  if (unsafe !== undefined) return { ok: false, fault: unsafe };
  // Each colon outside of a string belongs to one key; equal keys leave fewer in the value.
  if (countKeys(value) < scanned.keys) return { ok: false, fault: 'has a key twice in one object' };
  return { ok: true, value };
}

/** Whether a text has more levels than that, if it is JSON. */
export function isDeeperThan(text: string, levels: number): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else depth += levelOf(code);
    if (depth > levels) return true;
  }
  return false;
}

/** What a sign outside of a string does to the depth. */
function levelOf(code: number): number {
  if (code === 0x7b || code === 0x5b) return 1;
  return code === 0x7d || code === 0x5d ? -1 : 0;
}

interface Scan {
  readonly keys: number;
  /** Whether it has a number that JSON.parse could change. */
  readonly mayBeInexact: boolean;
  readonly fault?: string;
}

const QUOTE = 0x22;
const MINUS = 0x2d;
const COLON = 0x3a;
const COMMA = 0x2c;

/** Only looks at the outline, so that nothing is built of a text that will be refused. */
function scan(text: string): Scan {
  let depth = 0;
  let keys = 0;
  let elements = 0;
  let mayBeInexact = false;
  const refuse = (fault: string): Scan => ({ keys, mayBeInexact, fault });
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === COLON) keys += 1;
    else if (code === COMMA) elements += 1;
    else if (code === MINUS || isDigit(code)) {
      const end = endOfNumber(text, at);
      if (end - at > limits.jsonNumberCharsMax) {
        const place = placeOf(text, at).slice(0, PLACE_CHARS_MAX);
        return refuse(`has a number at ${place} with too many characters`);
      }
      mayBeInexact ||= !isShortNumber(text.slice(at, end));
      at = end - 1;
    } else depth += levelOf(code);
    if (depth > limits.jsonDepthMax) return refuse('is nested too deeply');
    if (keys > limits.jsonKeysMax) return refuse(`has more than ${limits.jsonKeysMax} keys`);
    // A list of n elements has n - 1 commas.
    if (elements >= limits.jsonElementsMax) {
      return refuse(`has more than ${limits.jsonElementsMax} elements`);
    }
  }
  return { keys, mayBeInexact };
}

const PLACE_CHARS_MAX = 100;

/** The path to what stands there, found only for what is refused. */
function placeOf(text: string, end: number): string {
  const steps: (string | number)[] = [];
  let name = '';
  for (let at = 0; at < end; at += 1) {
    const code = text.charCodeAt(at);
    const step = steps.at(-1);
    if (code === QUOTE) {
      const from = at + 1;
      at = endOfString(text, at);
      name = text.slice(from, at);
    } else if (levelOf(code) > 0) steps.push(0);
    else if (levelOf(code) < 0) steps.pop();
    else if (code === COLON && step !== undefined) steps.splice(-1, 1, name);
    else if (code === COMMA && typeof step === 'number') steps.splice(-1, 1, step + 1);
  }
  return ['$', ...steps].join('.');
}

function countKeys(value: unknown): number {
  let count = 0;
  if (Array.isArray(value)) {
    for (const inner of value) if (typeof inner === 'object') count += countKeys(inner);
  } else if (isObject(value)) {
    const values = Object.values(value);
    count = values.length;
    for (const inner of values) if (typeof inner === 'object') count += countKeys(inner);
  }
  return count;
}
