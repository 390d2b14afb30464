import { limits } from '../../base/limits.ts';

/** A parsed pattern. It has no constructs that would need unbounded backtracking. */
export type PatternNode =
  | { readonly kind: 'one'; readonly set: CharSet }
  | { readonly kind: 'at'; readonly place: PatternAnchor }
  | { readonly kind: 'all'; readonly nodes: readonly PatternNode[] }
  | { readonly kind: 'either'; readonly nodes: readonly PatternNode[] }
  | { readonly kind: 'group'; readonly index: number; readonly node: PatternNode }
  | {
      readonly kind: 'repeat';
      readonly node: PatternNode;
      readonly min: number;
      readonly max: number;
      readonly isLazy: boolean;
    };

export type PatternAnchor = 'start' | 'end' | 'edge' | 'inside';

export interface CharSet {
  readonly isNegated: boolean;
  readonly ranges: readonly (readonly [from: number, to: number])[];
}

export class PatternFault extends Error {}

interface PatternSyntax {
  readonly node: PatternNode;
  readonly groups: number;
}

/** Throws a `PatternFault` for invalid or unsupported patterns. */
export function parsePatternSyntax(text: string): PatternSyntax {
  const reader = new Reader(text);
  const node = reader.readEither(0);
  if (!reader.isAtEnd) throw new PatternFault('has a ) without its (');
  return { node, groups: reader.groups };
}

const REPEATS_MAX = 1000;

class Reader {
  groups = 0;
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  readEither(depth: number): PatternNode {
    if (depth > limits.patternDepthMax) throw new PatternFault('is nested too deeply');
    const nodes = [this.#readAll(depth)];
    while (this.#take('|')) nodes.push(this.#readAll(depth));
    const [only] = nodes;
    return nodes.length === 1 && only !== undefined ? only : { kind: 'either', nodes };
  }

  #readAll(depth: number): PatternNode {
    const nodes: PatternNode[] = [];
    while (!this.isAtEnd && !/[|)]/.test(this.#peek())) {
      nodes.push(this.#readRepeat(this.#readAtom(depth)));
    }
    return { kind: 'all', nodes };
  }

  #readRepeat(node: PatternNode): PatternNode {
    const counts = this.#readCounts();
    if (counts === undefined) return node;
    if (node.kind === 'at') throw new PatternFault('repeats a position, such as ^ or $');
    const [min, max] = counts;
    const isLazy = this.#take('?');
    if (/^(?:[*+?]|\{\d)/.test(this.#rest())) throw new PatternFault('repeats a repetition');
    return { kind: 'repeat', node, min, max, isLazy };
  }

  #readCounts(): readonly [min: number, max: number] | undefined {
    if (this.#take('*')) return [0, Infinity];
    if (this.#take('+')) return [1, Infinity];
    if (this.#take('?')) return [0, 1];
    const match = /^\{(\d{1,4})(?:(,)(\d{1,4})?)?\}/.exec(this.#rest());
    if (match === null) return undefined;
    this.#at += match[0].length;
    const min = Number(match[1]);
    const open = match[2] === undefined ? min : Infinity;
    const max = match[3] === undefined ? open : Number(match[3]);
    if (max < min) throw new PatternFault('has a repetition with its numbers out of order');
    if (min > REPEATS_MAX || (max > REPEATS_MAX && max !== Infinity)) {
      throw new PatternFault(`repeats more than ${REPEATS_MAX} times`);
    }
    return [min, max];
  }

  #readAtom(depth: number): PatternNode {
    if (this.#take('(')) return this.#readGroup(depth);
    if (this.#take('[')) return { kind: 'one', set: this.#readSet() };
    if (this.#take('\\')) return this.#readEscape();
    if (this.#take('^')) return { kind: 'at', place: 'start' };
    if (this.#take('$')) return { kind: 'at', place: 'end' };
    if (this.#take('.')) return { kind: 'one', set: ANY };
    if (/[*+?]/.test(this.#peek())) throw new PatternFault(`has a ${this.#peek()} after nothing`);
    return { kind: 'one', set: single(this.#next()) };
  }

  #readGroup(depth: number): PatternNode {
    let index = 0;
    if (this.#take('?')) {
      const opening = /^(?:(:)|P?<[A-Za-z_]\w{0,30}>)/.exec(this.#rest());
      if (opening === null) throw new PatternFault('has a lookahead, a lookbehind or an option');
      this.#at += opening[0].length;
      if (opening[1] === undefined) index = this.groups += 1;
    } else index = this.groups += 1;
    const node = this.readEither(depth + 1);
    if (!this.#take(')')) throw new PatternFault('has a ( without its )');
    return index === 0 ? node : { kind: 'group', index, node };
  }

  #readEscape(): PatternNode {
    if (this.#take('b')) return { kind: 'at', place: 'edge' };
    if (this.#take('B')) return { kind: 'at', place: 'inside' };
    return { kind: 'one', set: this.#readEscaped() };
  }

  #readEscaped(): CharSet {
    if (this.isAtEnd) throw new PatternFault('ends in a \\');
    const sign = this.#next();
    const known = escapes[sign];
    if (known !== undefined) return known;
    if (/[1-9k]/.test(sign)) throw new PatternFault('refers back to a group');
    if (/[A-Za-z0-9]/.test(sign)) throw new PatternFault(`has the unknown escape \\${sign}`);
    return single(sign);
  }

  #readSet(): CharSet {
    const isNegated = this.#take('^');
    const ranges: (readonly [number, number])[] = [];
    do {
      if (this.isAtEnd) throw new PatternFault('has a [ without its ]');
      const from = this.#readMember();
      if (!/^-[^\]]/.test(this.#rest())) {
        ranges.push(...from.ranges);
        continue;
      }
      this.#at += 1;
      const low = codeOf(from);
      const high = codeOf(this.#readMember());
      if (low > high) throw new PatternFault('has a range with its ends out of order');
      ranges.push([low, high]);
    } while (!this.#take(']'));
    return { isNegated, ranges };
  }

  #readMember(): CharSet {
    if (this.isAtEnd) throw new PatternFault('has a [ without its ]');
    const member = this.#take('\\') ? this.#readEscaped() : single(this.#next());
    if (member.isNegated) throw new PatternFault('has \\D, \\W or \\S inside of [ ]');
    return member;
  }

  #peek(): string {
    return this.#text.charAt(this.#at);
  }

  #rest(): string {
    return this.#text.slice(this.#at);
  }

  #next(): string {
    this.#at += 1;
    return this.#text.charAt(this.#at - 1);
  }

  #take(sign: string): boolean {
    if (this.#peek() !== sign) return false;
    this.#at += 1;
    return true;
  }
}

const digits = [[0x30, 0x39]] as const;
const words = [...digits, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]] as const;
const spaces = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
] as const;
const ANY: CharSet = { isNegated: true, ranges: [[0x0a, 0x0a]] };

const escapes: Readonly<Record<string, CharSet>> = {
  d: { isNegated: false, ranges: digits },
  D: { isNegated: true, ranges: digits },
  w: { isNegated: false, ranges: words },
  W: { isNegated: true, ranges: words },
  s: { isNegated: false, ranges: spaces },
  S: { isNegated: true, ranges: spaces },
  t: single('\t'),
};

function single(sign: string): CharSet {
  const code = sign.charCodeAt(0);
  return { isNegated: false, ranges: [[code, code]] };
}

function codeOf({ ranges }: CharSet): number {
  const [range] = ranges;
  if (ranges.length !== 1 || range === undefined || range[0] !== range[1]) {
    throw new PatternFault('has a range that ends in a class');
  }
  return range[0];
}
