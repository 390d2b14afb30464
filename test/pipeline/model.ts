/** A simple model of pipelines: trees whose result is computed by recursion. */
import { isObject, type Json, type JsonObject } from '../../src/base/json.ts';
import type { Node, NodeId } from '../../src/pipeline/language/graph.ts';
import type { Arrival } from '../../src/pipeline/run/run.ts';
import { choice, foreach, split, task } from './graphs.ts';

export type Tree = {
  readonly id: string;
  /** The step is skipped unless the payload has this key. */
  readonly needs: string | undefined;
} & (
  | { readonly kind: 'task'; readonly lenient: boolean }
  | { readonly kind: 'steps'; readonly steps: readonly Tree[] }
  | { readonly kind: 'foreach'; readonly steps: readonly Tree[] }
  | { readonly kind: 'split'; readonly arms: readonly (readonly Tree[])[] }
  | { readonly kind: 'switch'; readonly arms: readonly (readonly Tree[])[] }
);

export type Play = (id: string, branch: string) => Extract<Arrival, { kind: 'done' | 'failed' }>;

/** Flattens a list. `next` and `end` are the nodes after it. */
export function lay(steps: readonly Tree[], list: string, end: NodeId | null): Node[] {
  return steps.flatMap((tree, index) => {
    const after = steps[index + 1];
    const next = after === undefined ? end : firstOf([after]);
    const when =
      tree.needs === undefined
        ? undefined
        : ({ path: ['payload', tree.needs], op: 'exists', value: null } as const);
    const leads = { next, end, list, when };
    const { id } = tree;
    if (tree.kind === 'task') {
      return [task(id, { ...leads, onError: tree.lenient ? 'continue' : 'halt' })];
    }
    if (tree.kind === 'steps') return lay(tree.steps, id, next);
    if (tree.kind === 'foreach') {
      // The batch size is one, two or all: that must not change the result.
      const concurrency = Number(id.slice(1)) % 3 || undefined;
      const each = foreach(id, firstOf(tree.steps), { ...leads, concurrency });
      return [each, ...lay(tree.steps, '', null)];
    }
    const firsts = tree.arms.map(firstOf);
    if (tree.kind === 'split') {
      const arms = firsts.map((first, arm) => ({ label: armOf(id, arm), first }));
      return [split(id, [], { ...leads, arms }), ...tree.arms.flatMap((arm) => lay(arm, '', null))];
    }
    const cases = Object.fromEntries(firsts.map((first, arm) => [`${arm}`, first]));
    return [choice(id, cases, leads), ...tree.arms.flatMap((arm) => lay(arm, id, next))];
  });
}

/** Formats the steps as in a configuration file. */
export function write(steps: readonly Tree[]): object[] {
  return steps.map((tree) => {
    const { id, needs } = tree;
    const when = needs === undefined ? {} : { if: { path: `payload.${needs}`, op: 'exists' } };
    const common = { id, ...when };
    if (tree.kind === 'task') {
      return { ...common, uses: id, on_error: tree.lenient ? 'continue' : 'halt' };
    }
    if (tree.kind === 'steps') return { ...common, steps: write(tree.steps) };
    if (tree.kind === 'foreach') {
      return { ...common, foreach: 'payload.items', steps: write(tree.steps) };
    }
    if (tree.kind === 'split') {
      const arms = tree.arms.map((arm, index) => ({ id: armOf(id, index), steps: write(arm) }));
      return { ...common, split: arms };
    }
    const cases = Object.fromEntries(tree.arms.map((arm, index) => [`${index}`, write(arm)]));
    return { ...common, switch: 'payload.kind', cases };
  });
}

function armOf(id: string, arm: number): string {
  return `${id}a${arm}`;
}

export function firstOf([tree]: readonly Tree[]): NodeId {
  if (tree === undefined) throw new Error('a list without steps');
  return tree.kind === 'steps' ? firstOf(tree.steps) : tree.id;
}

interface State {
  readonly own: JsonObject;
  readonly base: JsonObject;
  /** The input of plugins: the base without the list of which they have an element. */
  readonly sent: JsonObject;
}

type Outcome = { readonly go: State } | { readonly end: Json } | { readonly halt: string };

export interface Meaning {
  readonly outcome: { readonly end: Json } | { readonly halt: string };
  /** The requests of plugins, in order: step, branch, input. */
  readonly asked: readonly (readonly [id: string, branch: string, input: JsonObject])[];
}

export function meaningOf(steps: readonly Tree[], payload: JsonObject, play: Play): Meaning {
  const requests: [string, string, JsonObject][] = [];

  function branch(list: readonly Tree[], state: State, path: string): Meaning['outcome'] {
    const outcome = run(list, '', state, path, true);
    return 'go' in outcome ? { end: outcome.go.own } : outcome;
  }

  function run(
    list: readonly Tree[],
    listId: string,
    state: State,
    path: string,
    isTail: boolean,
  ): Outcome {
    let now = state;
    for (const [index, tree] of list.entries()) {
      const rest = list.slice(index + 1);
      const all = { ...now.base, ...now.own };
      if (tree.needs !== undefined && !Object.hasOwn(all, tree.needs)) {
        continue;
      }
      if (tree.kind === 'task') {
        requests.push([tree.id, path, { ...now.sent, ...now.own }]);
        const played = play(tree.id, path);
        if (played.kind === 'failed') {
          if (!tree.lenient) return { halt: played.reason };
          const error = { reason: played.reason, message: played.error };
          now = { ...now, own: { ...now.own, error } };
          continue;
        }
        if (played.events.length < 2) {
          const [event] = played.events;
          now =
            event === undefined
              ? { ...now, own: { ...now.own, result: played.result } }
              : { own: whole(event), base: {}, sent: {} };
          continue;
        }
        const outputs: Json[] = [];
        const halts: string[] = [];
        for (const [at, event] of played.events.entries()) {
          const began = { own: whole(event), base: {}, sent: {} };
          if (rest.length === 0) outputs.push(began.own);
          else {
            const outcome = run(rest, listId, began, `${path}.${at}`, true);
            if ('halt' in outcome) halts.push(outcome.halt);
            else outputs.push('go' in outcome ? outcome.go.own : outcome.end);
          }
        }
        const [halt] = halts;
        if (halt !== undefined) return { halt };
        if (isTail) return { end: outputs };
        return { go: { ...now, own: { ...now.own, [listId]: outputs } } };
      }
      const outcome = block(tree, now, path, isTail && rest.length === 0);
      if (!('go' in outcome)) return outcome;
      now = outcome.go;
    }
    return { go: now };
  }

  function block(
    tree: Exclude<Tree, { kind: 'task' }>,
    state: State,
    path: string,
    isTail: boolean,
  ): Outcome {
    const all = { ...state.base, ...state.own };
    if (tree.kind === 'steps') return run(tree.steps, tree.id, state, path, isTail);
    if (tree.kind === 'switch') {
      const kind = all['kind'];
      if (kind === undefined) return { halt: 'invalid_transition' };
      const arm = typeof kind === 'number' ? tree.arms[kind] : undefined;
      if (arm === undefined) return { halt: 'unmatched_condition' };
      return run(arm, tree.id, state, path, isTail);
    }
    const items = all['items'];
    if (tree.kind === 'foreach' && !Array.isArray(items)) return { halt: 'invalid_transition' };
    const begun: readonly (readonly [readonly Tree[], JsonObject])[] =
      tree.kind === 'split'
        ? tree.arms.map((arm) => [arm, {}])
        : (items as Json[]).map((item, index) => [tree.steps, { item, index }]);
    const { items: list, ...others } = { ...state.sent, ...state.own };
    const sent =
      tree.kind === 'foreach' || list === undefined ? others : { ...others, items: list };
    const ends = begun.map(([body, own], index) =>
      branch(body, { own, base: all, sent }, `${path}.${index}`),
    );
    const halted = ends.find((end) => 'halt' in end);
    if (halted !== undefined) return halted;
    const outputs = ends.map((end) => ('end' in end ? end.end : null));
    const value =
      tree.kind === 'foreach'
        ? outputs
        : Object.fromEntries(outputs.map((output, arm) => [armOf(tree.id, arm), output]));
    return { go: { ...state, own: { ...state.own, [tree.id]: value } } };
  }

  const outcome = branch(steps, { own: payload, base: {}, sent: {} }, '0');
  return { outcome, asked: requests };
}

function whole(event: Json): JsonObject {
  return isObject(event) ? event : { value: event };
}
