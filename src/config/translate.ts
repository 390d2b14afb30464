import { limits } from '../base/limits.ts';
import { keyText } from './document.ts';
import { toLocated, toPlain, type LocatedNode } from './located.ts';
import { makeProblem, type Problem } from './problem.ts';

/** A spelling of the original Ductile, and the key that it stands for. */
export interface Translation {
  /** The path of the spelling, with `*` for any name or index. */
  readonly from: string;
  /** The key that gets the value, relative to the parent of `from`; undefined if none does. */
  readonly to?: readonly string[];
  /** Default: every value has this spelling. */
  readonly applies?: (value: LocatedNode) => boolean;
  /** Converts the value. */
  readonly change?: (value: LocatedNode) => LocatedNode;
  /** Returns sibling keys that change with it; undefined removes one. */
  readonly beside?: (
    value: LocatedNode,
    around: KeyParent,
  ) => ReadonlyMap<string, LocatedNode | undefined>;
  /** The reason why it has no effect. */
  readonly message?: string;
  readonly hint: string;
}

/** The parent of a key. */
type KeyParent = ReadonlyMap<string, LocatedNode>;

const comments: readonly Translation[] = ['tokens.*', 'api.auth.tokens.*'].flatMap((entry) =>
  ['description', 'created_at'].map((key) => ({
    from: `${entry}.${key}`,
    message: 'has no effect',
    hint: 'Write it as a comment, or remove it.',
  })),
);

/**
 * All accepted spellings, in the order of their application. A test compares the docs with the
 * list.
 */
export const translations: readonly Translation[] = [
  {
    from: 'log_level',
    to: ['service', 'log_level'],
    hint: 'Write log_level under service.',
  },
  {
    from: 'service.hook_max_depth',
    message:
      'has no effect: if job.succeeded or job.dead started a job, its own end starts nothing',
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
    applies: (value) => findLifecycleEvent(value) !== undefined,
    change: (value) => toLocatedLike(value, findLifecycleEvent(value)?.signal),
    beside: addLifecycleConditions,
    hint: 'Write it as `ductile config show pipelines` does.',
  },
];

interface LifecycleEvent {
  readonly signal: string;
  readonly conditions: readonly unknown[];
}

const notified = { path: 'payload.notify_on_complete', op: 'eq', value: true };
const endedAs = (...value: string[]) => ({ path: 'payload.status', op: 'in', value });

/** The signals of `on-hook`. Ductile reports every failed job, of all plugins. */
const lifecycleEvents: Readonly<Record<string, LifecycleEvent>> = {
  'job.completed': { signal: 'job.succeeded', conditions: [] },
  'job.failed': { signal: 'job.dead', conditions: [notified, endedAs('failed', 'dead')] },
  'job.timed_out': { signal: 'job.dead', conditions: [notified, endedAs('timed_out')] },
};

function findLifecycleEvent(value: LocatedNode): LifecycleEvent | undefined {
  const name = toPlain(value);
  return typeof name === 'string' && Object.hasOwn(lifecycleEvents, name)
    ? lifecycleEvents[name]
    : undefined;
}

/**
 * In the original, the source is the plugin of the job. The source of our signals is the service.
 */
function addLifecycleConditions(
  value: LocatedNode,
  around: KeyParent,
): ReadonlyMap<string, LocatedNode | undefined> {
  const conditions = (findLifecycleEvent(value)?.conditions ?? []).map((one) =>
    toLocatedLike(value, one),
  );
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

/** Gives a value the location of another one. */
function toLocatedLike({ document, path }: LocatedNode, value: unknown): LocatedNode {
  return toLocated(value, document, path);
}

interface TranslationResult {
  readonly root: LocatedNode;
  /** An entry for each spelling that was translated or ignored. */
  readonly notes: readonly Problem[];
}

/**
 * Replaces the original project's spellings with Ductile's keys. Every value keeps its location.
 * Within one file, Ductile's key overrides a spelling of it.
 */
export function translateSpellings(
  document: LocatedNode,
  table: readonly Translation[] = translations,
): TranslationResult {
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

/** Follows the words of `from` to every map that has the last one. */
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
  around: KeyParent,
  key: string,
  above: readonly PropertyKey[],
  translation: Translation,
  note: Note,
): KeyParent {
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

/** Sets a value that isn't set yet, and creates the maps on the way. */
function fillKey(
  around: KeyParent,
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

function mapOf({ content }: LocatedNode): KeyParent | undefined {
  return 'map' in content ? content.map : undefined;
}

function isNull({ content }: LocatedNode): boolean {
  return 'scalar' in content && (content.scalar === null || content.scalar === undefined);
}
