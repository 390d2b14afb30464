import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { compilePipeline, type CompileResult } from '../../src/pipeline/language/compile.ts';
import { toPipelineEntry, type PipelineEntry } from '../../src/pipeline/language/entry.ts';
import { pipelineSchema } from '../../src/pipeline/language/entry-schema.ts';
import type { Graph } from '../../src/pipeline/language/graph.ts';
import type { PipelineLibrary } from '../../src/pipeline/language/check.ts';

function entry(name: string, steps: unknown[], more: object = {}): PipelineEntry {
  const parsed = pipelineSchema.parse({ name, steps, ...more });
  return toPipelineEntry(parsed, (path) => ({ place: 'x.yaml', key: path.join('.') }));
}

function library(...entries: PipelineEntry[]): PipelineLibrary {
  return {
    pipelines: new Map(entries.map((one) => [one.name, one])),
    suggest: (_word, known, what) => `The ${what} are ${known.join(', ')}.`,
    resolve(uses) {
      const [plugin = '', command = 'handle'] = uses.split('.');
      if (plugin === 'nobody') return { fault: `names ${uses}, which is not a plugin` };
      return { plugin, command, maxAttempts: 4 };
    },
  };
}

function make(...entries: [PipelineEntry, ...PipelineEntry[]]): Graph {
  const { graph, faults } = compilePipeline(entries[0], library(...entries));
  expect(faults).toEqual([]);
  if (graph === undefined) throw new Error('nothing was compiled');
  return graph;
}

/** Each node as `id kind → next | end (list)`. */
function lines({ nodes }: Graph): string[] {
  return Object.values(nodes).map(
    ({ id, kind, next, end, list }) => `${id} ${kind} → ${next} | ${end} (${list})`,
  );
}

function tell({ faults: found }: CompileResult): string[] {
  return found.map(({ path, message }) => `${path.join('.')} ${message}`);
}

const a = { id: 'a', uses: 'p.run' };
const b = { id: 'b', uses: 'p' };
const c = { id: 'c', uses: 'p' };
const d = { id: 'd', uses: 'p' };

describe('the next step', () => {
  test('a chain leads from step to step', () => {
    const graph = make(entry('chain', [a, b, c]));
    expect(graph.first).toBe('a');
    expect(lines(graph)).toEqual([
      'a task → b | null ()',
      'b task → c | null ()',
      'c task → null | null ()',
    ]);
    expect(graph.nodes['a']).toMatchObject({
      plugin: 'p',
      command: 'run',
      maxAttempts: 4,
      onError: 'halt',
    });
    expect(graph.nodes['b']).toMatchObject({ plugin: 'p', command: 'handle' });
  });

  test('a nested list is flattened, and knows the step after it', () => {
    const graph = make(entry('nested', [{ id: 'inner', steps: [a, b] }, c]));
    expect(graph.first).toBe('a');
    expect(lines(graph)).toEqual([
      'a task → b | c (inner)',
      'b task → c | c (inner)',
      'c task → null | null ()',
    ]);
  });

  test('a list with a condition is one arm that runs or is skipped', () => {
    const graph = make(entry('gate', [a, { id: 'inner', if: 'payload.x', steps: [b] }, c]));
    expect(lines(graph)).toEqual([
      'a task → inner | null ()',
      'inner switch → c | null ()',
      'b task → c | c (inner)',
      'c task → null | null ()',
    ]);
    expect(graph.nodes['inner']).toMatchObject({
      when: { cel: 'payload.x' },
      cases: [],
      otherwise: { first: 'b' },
    });
  });

  test('arms of a switch come back to what follows it', () => {
    const graph = make(
      entry('choice', [
        { id: 'kind', switch: 'payload.kind', cases: { photo: [a, b], text: [] }, otherwise: [c] },
        d,
      ]),
    );
    expect(lines(graph)).toEqual([
      'kind switch → d | null ()',
      'a task → b | d (kind)',
      'b task → d | d (kind)',
      'c task → d | d (kind)',
      'd task → null | null ()',
    ]);
    expect(graph.nodes['kind']).toMatchObject({
      value: { ref: ['payload', 'kind'] },
      cases: [
        { label: 'photo', equals: 'photo', first: 'a' },
        { label: 'text', equals: 'text', first: null },
      ],
      otherwise: { first: 'c' },
    });
  });

  test('branches of a block end by themselves', () => {
    const graph = make(
      entry(
        'blocks',
        [
          { id: 'both', split: [a, { id: 'right', steps: [b, c] }] },
          { id: 'each', foreach: 'payload.items', as: 'photo', concurrency: 2, steps: [d] },
          { id: 'last', uses: 'p' },
        ],
        { max_fanout: 7 },
      ),
    );
    expect(lines(graph)).toEqual([
      'both split → each | null ()',
      'a task → null | null ()',
      'b task → c | null (right)',
      'c task → null | null (right)',
      'each foreach → last | null ()',
      'd task → null | null ()',
      'last task → null | null ()',
    ]);
    expect(graph.nodes['both']).toMatchObject({
      arms: [
        { label: 'a', first: 'a' },
        { label: 'right', first: 'b' },
      ],
    });
    expect(graph.nodes['each']).toMatchObject({
      as: 'photo',
      first: 'd',
      concurrency: 2,
      maxFanout: 7,
    });
  });

  test('a called pipeline is inlined, and returns to the caller', () => {
    const called = entry('called', [a, { id: 'deep', call: 'third' }], { max_fanout: 3 });
    const third = entry('third', [{ id: 'each', foreach: 'payload.l', steps: [b] }], {
      max_fanout: 2,
    });
    const graph = make(entry('caller', [{ id: 'go', call: 'called' }, c]), called, third);
    expect(graph.first).toBe('go/a');
    expect(lines(graph)).toEqual([
      'go/a task → go/deep/each | c (go)',
      'go/deep/each foreach → c | c (go/deep)',
      'go/deep/b task → null | null ()',
      'c task → null | null ()',
    ]);
    expect(graph.nodes['go/deep/each']).toMatchObject({ maxFanout: 2 });
  });

  test('steps without an id are named by their position', () => {
    const graph = make(
      entry('auto', [
        { uses: 'p' },
        { steps: [{ uses: 'p' }, { id: 'step_4', uses: 'p' }] },
        { uses: 'p' },
        { uses: 'p' },
      ]),
    );
    expect(Object.keys(graph.nodes)).toEqual(['step_1', 'step_3', 'step_4', 'step_5', 'step_6']);
    const taken = make(entry('taken', [{ uses: 'p' }, { id: 'step_1', uses: 'p' }]));
    expect(Object.keys(taken.nodes)).toEqual(['step_1_', 'step_1']);
  });

  test('waits and approvals keep their deadlines', () => {
    const graph = make(
      entry('waits', [
        { id: 'ask', approve: 'Send {payload.x}?', timeout: '1h', on_error: 'continue' },
        { id: 'ask2', approve: { on_timeout: 'reject' }, timeout: '1h' },
        { id: 'pause', wait: '5m' },
        { id: 'until', wait: { until: '{payload.at}' } },
        {
          id: 'paid',
          wait: { signal: 'paid', from: 'shop', if: 'signal.id == payload.id' },
          timeout: '2d',
        },
      ]),
    );
    expect(graph.nodes).toMatchObject({
      ask: { timeoutMs: 3_600_000, onTimeout: 'halt', onError: 'continue' },
      ask2: { message: undefined, onTimeout: 'reject' },
      pause: { delayMs: 300_000, until: undefined, signal: undefined },
      until: { until: { ref: ['payload', 'at'] } },
      paid: {
        signal: { type: 'paid', from: 'shop', when: { cel: 'signal.id == payload.id' } },
        timeoutMs: 172_800_000,
      },
    });
  });
});

describe('an invalid pipeline is refused', () => {
  test('a duplicate id is reported', () => {
    const twice = entry('twice', [a, { id: 'x', split: [b, { id: 'a', uses: 'p' }] }]);
    expect(tell(compilePipeline(twice, library(twice)))).toEqual([
      'steps.1.split.1.id is a, which is the id of an earlier step of this pipeline',
    ]);
  });

  test('unknown plugins and pipelines are reported', () => {
    const lost = entry('lost', [{ uses: 'nobody.x' }, { if: 'payload.x', call: 'else' }], {
      on_halt: 'nobody',
    });
    expect(tell(compilePipeline(lost, library(lost)))).toEqual([
      'steps.1.call names else, which is not a pipeline',
      'steps.0.uses names nobody.x, which is not a plugin',
      'on_halt names nobody, which is not a plugin',
    ]);
  });

  test('a fault of a called pipeline is reported once, for that pipeline', () => {
    const called = entry('called', [{ uses: 'nobody' }]);
    const caller = entry('caller', [{ call: 'called' }]);
    expect(compilePipeline(caller, library(caller, called))).toEqual({
      graph: undefined,
      faults: [],
    });
  });

  test('a cycle of calls is reported with its path', () => {
    const one = entry('one', [a, { id: 'x', split: [{ call: 'two' }] }]);
    const two = entry('two', [{ call: 'three' }]);
    const three = entry('three', [b, { call: 'two' }]);
    const all = library(one, two, three);
    expect(tell(compilePipeline(two, all))).toEqual([
      'steps.0.call forms a loop: two → three → two',
    ]);
    expect(tell(compilePipeline(three, all))).toEqual([
      'steps.1.call forms a loop: three → two → three',
    ]);
    expect(compilePipeline(one, all)).toEqual({ graph: undefined, faults: [] });
    const self = entry('self', [{ call: 'self' }]);
    expect(tell(compilePipeline(self, library(self)))).toEqual([
      'steps.0.call forms a loop: self → self',
    ]);
  });

  test('unreachable steps are reported', () => {
    const dead = entry('dead', [
      { id: 'never', if: 'false', uses: 'p' },
      {
        id: 'cases',
        cases: [
          { if: true, steps: [a] },
          { if: 'payload.x', steps: [b] },
        ],
        otherwise: [c],
      },
      { id: 'each', foreach: 'items', steps: [d] },
      { id: 'text', foreach: '{payload.items} of it', steps: [{ uses: 'p' }] },
    ]);
    expect(tell(compilePipeline(dead, library(dead)))).toEqual([
      'steps.0.if never holds, so the step is never reached',
      'steps.1.cases.1 is never reached, since an earlier case always holds',
      'steps.1.otherwise is never reached, since an earlier case always holds',
      'steps.2.foreach must be a list, or a path to one such as payload.items',
      'steps.3.foreach must be a list, or a path to one such as payload.items',
    ]);
  });

  test('pipelines that double with every call are refused', () => {
    const entries = Array.from({ length: 40 }, (_, level) =>
      entry(
        `p${level}`,
        level === 39 ? [a, b] : [{ call: `p${level + 1}` }, { call: `p${level + 1}` }],
      ),
    );
    const [first] = entries;
    if (first === undefined) throw new Error('there is no pipeline');
    expect(tell(compilePipeline(first, library(...entries)))).toEqual([
      `steps has more than ${limits.pipelineNodesMax} steps, with those of called pipelines`,
    ]);
  });
});

describe('the hash', () => {
  const base = [a, { id: 'each', foreach: 'payload.items', steps: [b] }];

  test('covers what decides the behavior, and survives storage', () => {
    const graph = make(entry('same', base));
    const again = make(
      entry('same', base, { on: 'x', timeout: '5m', execution_mode: 'synchronous' }),
    );
    expect(again.hash).toBe(graph.hash);
    expect(graph.hash).toMatch(/^[0-9a-f]{64}$/);
    const stored: unknown = JSON.parse(JSON.stringify(graph));
    expect(stored).toEqual(JSON.parse(JSON.stringify(again)));
  });

  test.each([
    ['a step', entry('same', [...base, c])],
    ['a name', entry('other', base)],
    ['the fan-out', entry('same', base, { max_fanout: 5 })],
    ['the handler', entry('same', base, { on_halt: 'p' })],
    ['a value', entry('same', [{ ...a, with: { x: 1 } }, ...base.slice(1)])],
  ])('%s changes it', (_what, changed) => {
    expect(make(changed).hash).not.toBe(make(entry('same', base)).hash);
  });
});
