import { limits } from '../base/limits.ts';
import { keyText } from './document.ts';
import { toLocated, toPlain, type LocatedNode } from './located.ts';
import { makeProblem, type Problem } from './problem.ts';

/** One spelling of the original Ductile, and the key that it stands for. */
export interface Translation {
  /** Where it is written, with `*` for any name or index. */
  readonly from: string;
  /** The key that takes the value, from the map that `from` is in; undefined if nothing does. */
  readonly to?: readonly string[];
  /** Without it, every value is this spelling. */
  readonly applies?: (value: LocatedNode) => boolean;
  /** What becomes of the value. */
  readonly change?: (value: LocatedNode) => LocatedNode;
  /** Keys beside it that change with it; undefined removes one. */
  readonly beside?: (
    value: LocatedNode,
    around: Around,
  ) => ReadonlyMap<string, LocatedNode | undefined>;
  /** Why it has no effect, if it has none. */
  readonly message?: string;
  readonly hint: string;
}

/** The map that a key is in. */
type Around = ReadonlyMap<string, LocatedNode>;

const comments: readonly Translation[] = ['tokens.*', 'api.auth.tokens.*'].flatMap((entry) =>
  ['description', 'created_at'].map((key) => ({
    from: `${entry}.${key}`,
    message: 'has no effect',
    hint: 'Write it as a comment, or remove it.',
  })),
);

/** Every accepted spelling, in the order in which they are applied. A test compares the docs with it. */
export const translations: readonly Translation[] = [
  {
    from: 'log_level',
    to: ['service', 'log_level'],
    hint: 'Write log_level under service.',
  },
  {
    from: 'service.hook_max_depth',
    message: 'has no effect: what job.succeeded or job.dead started never starts another',
    hint: 'Remove it. service.max_hops limits every other chain of signals.',
  },
  {
    from: 'plugins.*.timeout',
    to: ['timeouts', '*'],
    hint: 'Write timeouts: {"*": 30s}, or name the commands.',
  },
  {
    from: 'plugins.*.max_attempts',
    to: ['retry', 'max_attempts'],
    hint: 'Write max_attempts under retry.',
  },
  {
    from: 'plugins.*.concurrency_safe',
    to: ['parallelism'],
    applies: (value) => ['false', false].includes(toPlain(value) as string | boolean),
    change: (value) => toLocatedLike(value, 1),
    hint: 'Write parallelism: 1.',
  },
  {
    from: 'plugins.*.concurrency_safe',
    applies: (value) => ['true', true].includes(toPlain(value) as string | boolean),
    message: "has no effect: without parallelism, the plugin's manifest decides",
    hint: 'Remove it, or set parallelism to how many jobs may run at once.',
  },
  {
    from: 'webhooks',
    to: ['webhooks', 'endpoints'],
    applies: ({ content }) => 'list' in content,
    hint: 'Write the list under endpoints.',
  },
  {
    from: 'webhooks.endpoints.*.name',
    message: 'has no effect: an endpoint is named by its path',
    hint: 'Remove it.',
  },
  ...comments,
  {
    from: 'pipelines.*.on-hook',
    to: ['on'],
    applies: (value) => hookOf(value) !== undefined,
    change: (value) => toLocatedLike(value, hookOf(value)?.signal),
    beside: addHookConditions,
    hint: 'Write it as `ductile config show pipelines` does.',
  },
];

interface Hook {
  readonly signal: string;
  readonly conditions: readonly unknown[];
}

const notified = { path: 'payload.notify_on_complete', op: 'eq', value: true };
const endedAs = (...value: string[]) => ({ path: 'payload.status', op: 'in', value });

/** The signals of `on-hook`. Ductile reports every bad end of a job, whichever plugin it is of. */
const hooks: Readonly<Record<string, Hook>> = {
  'job.completed': { signal: 'job.succeeded', conditions: [] },
  'job.failed': { signal: 'job.dead', conditions: [notified, endedAs('failed', 'dead')] },
  'job.timed_out': { signal: 'job.dead', conditions: [notified, endedAs('timed_out')] },
};

function hookOf(value: LocatedNode): Hook | undefined {
  const name = toPlain(value);
  return typeof name === 'string' && Object.hasOwn(hooks, name) ? hooks[name] : undefined;
}

/** The source of a hook was the plugin of the job; the source of our signals is the service. */
function addHookConditions(
  value: LocatedNode,
  around: Around,
): ReadonlyMap<string, LocatedNode | undefined> {
  const conditions = (hookOf(value)?.conditions ?? []).map((one) => toLocatedLike(value, one));
  const plugin = around.get('from_plugin');
  if (plugin !== undefined) {
    const isFrom = { path: 'payload.plugin', op: 'eq', value: toPlain(plugin) };
    conditions.push(toLocatedLike(plugin, isFrom));
  }
  const own = around.get('if');
  if (own !== undefined) conditions.push(own);
  const [first, ...more] = conditions;
  const all: LocatedNode | undefined =
    first === undefined || more.length === 0
      ? first
      : {
          ...value,
          content: { map: new Map([['all', { ...value, content: { list: conditions } }]]) },
        };
  return new Map([
    ['if', all],
    ['from_plugin', undefined],
  ]);
}

/** A value that stands where another is written. */
function toLocatedLike({ document, path }: LocatedNode, value: unknown): LocatedNode {
  return toLocated(value, document, path);
}

interface Translated {
  readonly root: LocatedNode;
  /** One for each spelling that was translated or ignored. */
  readonly notes: readonly Problem[];
}

/**
 * Puts the keys of Ductile in the place of the original's spellings. Every value keeps its location.
 * In one file, a key of Ductile wins over a spelling of it.
 */
export function translateSpellings(
  document: LocatedNode,
  table: readonly Translation[] = translations,
): Translated {
  const notes: Problem[] = [];
  const note = (problem: Problem): void => {
    if (notes.length < limits.problemsMax) notes.push(problem);
  };
  const root = table.reduce(
    (node, translation) => translateBelow(node, translation.from.split('.'), [], translation, note),
    document,
  );
  return { root, notes };
}

type Note = (problem: Problem) => void;

/** Follows the words of `from` to every map that has its last one. */
function translateBelow(
  node: LocatedNode,
  [word = '', ...rest]: readonly string[],
  above: readonly PropertyKey[],
  translation: Translation,
  note: Note,
): LocatedNode {
  const { content } = node;
  if ('list' in content) {
    if (word !== '*') return node;
    const list = content.list.map((inner, index) =>
      translateBelow(inner, rest, [...above, index], translation, note),
    );
    return { ...node, content: { list } };
  }
  if (!('map' in content)) return node;
  if (rest.length === 0) {
    return { ...node, content: { map: translateKey(content.map, word, above, translation, note) } };
  }
  const map = new Map(content.map);
  for (const [key, inner] of content.map) {
    if (word !== '*' && word !== key) continue;
    map.set(key, translateBelow(inner, rest, [...above, key], translation, note));
  }
  return { ...node, content: { map } };
}

function translateKey(
  around: Around,
  key: string,
  above: readonly PropertyKey[],
  translation: Translation,
  note: Note,
): Around {
  const { to, applies, change = (value) => value, beside, message, hint } = translation;
  const value = around.get(key);
  if (value === undefined || applies?.(value) === false) return around;
  const place = value.document.placeOf(value.path);
  const written = keyText(value.path);
  const map = new Map(around);
  map.delete(key);
  if (to === undefined) {
    note(makeProblem(place, written, message ?? 'has no effect', hint));
    return map;
  }
  const ours = keyText([...above, ...to]);
  const filled = fillKey(map, to, change(value));
  if (filled === 'taken') {
    note(makeProblem(place, written, `is ignored, because ${ours} is set too`, 'Remove it.'));
    return map;
  }
  note(makeProblem(place, written, `is accepted as ${ours}`, hint));
  for (const [other, node] of beside?.(value, around) ?? []) {
    if (node === undefined) filled.delete(other);
    else filled.set(other, node);
  }
  return filled;
}

/** The map with a value where there is none yet. Maps on the way to it are made. */
function fillKey(
  around: Around,
  [key = '', ...rest]: readonly string[],
  value: LocatedNode,
): Map<string, LocatedNode> | 'taken' {
  const before = around.get(key);
  const isEmpty = before === undefined || isNull(before);
  if (rest.length === 0) return isEmpty ? new Map(around).set(key, value) : 'taken';
  const inner = isEmpty ? new Map<string, LocatedNode>() : mapOf(before);
  const filled = inner === undefined ? 'taken' : fillKey(inner, rest, value);
  if (filled === 'taken') return 'taken';
  const home = isEmpty ? value : before;
  return new Map(around).set(key, { ...home, content: { map: filled } });
}

function mapOf({ content }: LocatedNode): Around | undefined {
  return 'map' in content ? content.map : undefined;
}

function isNull({ content }: LocatedNode): boolean {
  return 'scalar' in content && (content.scalar === null || content.scalar === undefined);
}
