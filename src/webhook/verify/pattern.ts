import { limits } from '../../base/limits.ts';
import {
  PatternFault,
  type CharSet,
  type PatternNode,
  parsePatternSyntax,
  type PatternAnchor,
} from './pattern-syntax.ts';

/**
 * A regular expression whose first group is searched in an unverified header. Each pair of step and
 * position is tried once, so the time is at most their product, without exponential backtracking.
 * All matches for one delivery share an effort, because even that is much for an unverified sender.
 */
export interface Pattern {
  readonly text: string;
  readonly steps: readonly Step[];
}

type ParsedPattern =
  | { readonly ok: true; readonly pattern: Pattern }
  | { readonly ok: false; readonly message: string; readonly hint: string };

type Step =
  | { readonly op: 'one'; readonly set: CharSet }
  | { readonly op: 'at'; readonly place: PatternAnchor }
  /** Tries `first` before `second`. */
  | { op: 'fork'; first: number; second: number }
  | { readonly op: 'mark'; readonly slot: 0 | 1 }
  | { readonly op: 'done' };

const HINT =
  'Characters, [classes], groups, |, *, +, ?, {n,m}, ^, $, \\d, \\w, \\s and \\b are known; ' +
  'write (…) around the part to find.';

export function parsePattern(text: string): ParsedPattern {
  try {
    if (text.length > limits.patternCharsMax) {
      throw new PatternFault(`is longer than ${limits.patternCharsMax} characters`);
    }
    const { node, groups } = parsePatternSyntax(text);
    if (groups === 0) throw new PatternFault('has no group around the part to find');
    const steps: Step[] = [];
    compile(node, steps);
    add(steps, { op: 'done' });
    return { ok: true, pattern: { text, steps } };
  } catch (thrown) {
    if (!(thrown instanceof PatternFault)) throw thrown;
    return { ok: false, message: thrown.message, hint: HINT };
  }
}

/** The remaining number of comparisons. */
export interface MatchEffort {
  left: number;
}

export function createMatchEffort(): MatchEffort {
  return { left: limits.patternEffortMax };
}

/**
 * Returns the first group of each match, from left to right. At most `max`, and never more than
 * 255, because rounds are counted in a byte. Undefined if the effort ran out.
 */
export function findMatches(
  { steps }: Pattern,
  text: string,
  max: number,
  effort: MatchEffort,
): string[] | undefined {
  const found: string[] = [];
  const tried = new Uint8Array(steps.length * (text.length + 1));
  let from = 0;
  while (from <= text.length && found.length < max) {
    const match = search(steps, text, from, { tried, round: found.length + 1, effort });
    if (effort.left < 0) return undefined;
    if (match === undefined) break;
    found.push(match.group);
    from = match.end > from ? match.end : from + 1;
  }
  return found;
}

interface Match {
  readonly group: string;
  readonly end: number;
}

interface Search {
  /** The round in which a step was last tried at a position. A failed attempt fails again. */
  readonly tried: Uint8Array;
  readonly round: number;
  readonly effort: MatchEffort;
}

function search(
  steps: readonly Step[],
  text: string,
  from: number,
  searched: Search,
): Match | undefined {
  for (let start = from; start <= text.length && searched.effort.left >= 0; start += 1) {
    const match = matchAt(steps, text, start, searched);
    if (match !== undefined) return match;
  }
  return undefined;
}

/** An unexplored path, with the start and the end of the group so far. */
interface OpenPath {
  readonly step: number;
  readonly at: number;
  readonly marks: readonly [number, number];
}

function matchAt(
  steps: readonly Step[],
  text: string,
  start: number,
  { tried, round, effort }: Search,
): Match | undefined {
  const open: OpenPath[] = [{ step: 0, at: start, marks: [-1, -1] }];
  for (let way = open.pop(); way !== undefined; way = open.pop()) {
    const { step, at, marks } = way;
    const index = at * steps.length + step;
    const does = steps[step];
    effort.left -= does?.op === 'one' ? does.set.ranges.length : 1;
    if (effort.left < 0) return undefined;
    if (does === undefined || tried[index] === round) continue;
    tried[index] = round;
    if (does.op === 'done') return { group: groupOf(text, marks), end: at };
    if (does.op === 'fork') {
      open.push({ step: does.second, at, marks }, { step: does.first, at, marks });
    } else if (does.op === 'mark') {
      const moved = does.slot === 0 ? ([at, marks[1]] as const) : ([marks[0], at] as const);
      open.push({ step: step + 1, at, marks: moved });
    } else if (does.op === 'at') {
      if (isAt(does.place, text, at)) open.push({ step: step + 1, at, marks });
    } else if (at < text.length && isIn(does.set, text.charCodeAt(at))) {
      open.push({ step: step + 1, at: at + 1, marks });
    }
  }
  return undefined;
}

function groupOf(text: string, [start, end]: readonly [number, number]): string {
  return start === -1 || end < start ? '' : text.slice(start, end);
}

function isIn({ isNegated, ranges }: CharSet, code: number): boolean {
  return ranges.some(([low, high]) => code >= low && code <= high) !== isNegated;
}

function isAt(place: PatternAnchor, text: string, at: number): boolean {
  if (place === 'start') return at === 0;
  if (place === 'end') return at === text.length;
  return (isWord(text, at - 1) !== isWord(text, at)) === (place === 'edge');
}

function isWord(text: string, at: number): boolean {
  return /\w/.test(text.charAt(at));
}

function compile(node: PatternNode, steps: Step[]): void {
  if (node.kind === 'one') add(steps, { op: 'one', set: node.set });
  else if (node.kind === 'at') add(steps, { op: 'at', place: node.place });
  else if (node.kind === 'all') for (const inner of node.nodes) compile(inner, steps);
  else if (node.kind === 'either') compileEither(node.nodes, steps);
  else if (node.kind === 'repeat') compileRepeat(node, steps);
  else if (node.index === 1) {
    add(steps, { op: 'mark', slot: 0 });
    compile(node.node, steps);
    add(steps, { op: 'mark', slot: 1 });
  } else compile(node.node, steps);
}

/**
 * Each alternative but the last is a fork to itself or the next, and jumps behind all of them at
 * its end.
 */
function compileEither(nodes: readonly PatternNode[], steps: Step[]): void {
  const jumps: ReturnType<typeof fork>[] = [];
  for (const [index, node] of nodes.entries()) {
    const isLast = index === nodes.length - 1;
    const choice = isLast ? undefined : fork(steps);
    if (choice !== undefined) choice.first = steps.length;
    compile(node, steps);
    if (choice === undefined) continue;
    jumps.push(fork(steps));
    choice.second = steps.length;
  }
  for (const jump of jumps) jump.first = jump.second = steps.length;
}

function compileRepeat(
  { node, min, max, isLazy }: PatternNode & { kind: 'repeat' },
  steps: Step[],
): void {
  const aim = (choice: ReturnType<typeof fork>, into: number, past: number): void => {
    choice.first = isLazy ? past : into;
    choice.second = isLazy ? into : past;
  };
  for (let time = 0; time < min; time += 1) {
    const before = steps.length;
    compile(node, steps);
    // An empty node stays empty when repeated.
    if (steps.length === before) break;
  }
  if (max === Infinity) {
    const loop = steps.length;
    const choice = fork(steps);
    compile(node, steps);
    const back = fork(steps);
    back.first = back.second = loop;
    aim(choice, loop + 1, steps.length);
    return;
  }
  const choices: { readonly choice: ReturnType<typeof fork>; readonly into: number }[] = [];
  for (let time = min; time < max; time += 1) {
    choices.push({ choice: fork(steps), into: steps.length });
    compile(node, steps);
  }
  for (const { choice, into } of choices) aim(choice, into, steps.length);
}

function fork(steps: Step[]): Step & { op: 'fork' } {
  const step: Step = { op: 'fork', first: 0, second: 0 };
  add(steps, step);
  return step;
}

function add(steps: Step[], step: Step): void {
  if (steps.length >= limits.patternStepsMax)
    throw new PatternFault('is too long with its repetitions expanded');
  steps.push(step);
}
