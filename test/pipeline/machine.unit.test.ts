import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { advance } from '../../src/pipeline/run/advance.ts';
import type { Graph } from '../../src/pipeline/language/graph.ts';
import { simulateRun, type Simulation } from '../../src/pipeline/language/simulate.ts';
import { makePipeline } from '../support/pipelines.ts';
import { cases, makePlay, name } from './arbitrary.ts';
import { at, graph, start } from './graphs.ts';
import { firstOf, lay, meaningOf, write, type Play, type Tree } from './model.ts';

interface PipelineSimulation extends Simulation {
  readonly asked: (readonly [string, string, JsonObject])[];
}

function playAll(flow: Graph, begin: JsonObject, play: Play): PipelineSimulation {
  const requests: (readonly [string, string, JsonObject])[] = [];
  const simulation = simulateRun({
    graph: flow,
    payload: begin,
    context: {},
    stepsMax: 100_000,
    charsMax: 100_000_000,
    answer({ node, branch, input }) {
      requests.push([node.id, branch, input]);
      return play(node.id, branch);
    },
  });
  return { ...simulation, asked: requests };
}

/** Simulates a pipeline, and compares the result with the model. */
function verify(flow: Graph, trees: readonly Tree[], begin: JsonObject, play: Play): void {
  const { outcome, asked } = meaningOf(trees, begin, play);
  const played = playAll(flow, begin, play);
  expect(played.asked).toEqual(asked);
  if ('halt' in outcome) {
    expect(played.status).toBe('halted');
    expect(played.halts.at(-1)).toMatchObject({ branch: '0', reason: outcome.halt });
  } else {
    expect(played.status).toBe('succeeded');
    expect(JSON.parse(played.output ?? 'null')).toEqual(outcome.end);
  }
}

test('every pipeline behaves as its structure says', () => {
  fc.assert(
    fc.property(cases, ([list, begin, answers]) => {
      const trees = name(list);
      const flow = graph(lay(trees, '', null), { first: firstOf(trees) });
      verify(flow, trees, begin, makePlay(answers));
    }),
    { numRuns: 1000, seed: 1 },
  );
});

test('the compiled pipeline does the same as the written one', () => {
  fc.assert(
    fc.property(cases, ([list, begin, answers]) => {
      const trees = name(list);
      const { graph: flow } = makePipeline({ name: 'flow', steps: write(trees) });
      verify(flow, trees, begin, makePlay(answers));
    }),
    { numRuns: 300, seed: 1 },
  );
});

test('a transition is deterministic, and survives storage', () => {
  fc.assert(
    fc.property(cases, ([list, begin, answers]) => {
      const trees = name(list);
      const flow = graph(lay(trees, '', null), { first: firstOf(trees) });
      const stored = JSON.parse(JSON.stringify(flow)) as Graph;
      const play = makePlay(answers);
      expect(playAll(stored, begin, play)).toEqual(playAll(flow, begin, play));
      const standing = at(flow.first, begin);
      expect(advance(stored, standing, start)).toEqual(advance(flow, standing, start));
    }),
    { numRuns: 200, seed: 1 },
  );
});

test('a simulation reports what would run next and why, and stops at its limits', () => {
  const list = [
    { id: 'get', kind: 'task', needs: undefined, lenient: false },
    {
      id: 'all',
      kind: 'foreach',
      needs: undefined,
      steps: [{ id: 'use', kind: 'task', needs: undefined, lenient: false }],
    },
  ] as const;
  const flow = graph(lay(list, '', null));
  const request = { graph: flow, payload: {}, context: {}, stepsMax: 100, charsMax: 100_000 };
  const unanswered = simulateRun({ ...request, answer: () => undefined });
  expect(unanswered).toMatchObject({ status: 'open', steps: [] });
  expect(unanswered.next).toMatchObject([{ node: 'get', why: 'it is the first step', input: {} }]);

  const items = ['a', 'b'];
  const begun = simulateRun({
    ...request,
    answer: ({ node, branch }) => {
      if (branch === '0.1') return undefined;
      const events = node.id === 'get' ? [{ items }] : [];
      return { kind: 'done', events, result: 'ok' };
    },
  });
  expect(begun.status).toBe('open');
  expect(begun.steps.map(({ node, branch, why }) => `${branch} ${node}: ${why}`)).toEqual([
    '0 get: it is the first step',
    '0.0 use: element 0 of all',
  ]);
  expect(begun.next).toMatchObject([
    { node: 'use', branch: '0.1', why: 'element 1 of all', input: { item: 'b', index: 1 } },
  ]);
  expect(begun.next[0]?.input).not.toHaveProperty('items');

  const cut = simulateRun({
    ...request,
    payload: { items: Array.from({ length: 1000 }, (_, index) => index) },
    answer: () => ({ kind: 'done', events: [], result: null }),
  });
  expect(cut).toMatchObject({ status: 'open', isCut: true });
  expect(cut.steps.length).toBeLessThanOrEqual(101);
});
