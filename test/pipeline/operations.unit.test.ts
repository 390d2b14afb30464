/** Operations on pipelines that aren't running. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ownerOf } from '../../src/operation/context.ts';
import type { JsonOutput, Operation } from '../../src/operation/define.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { testPipeline } from '../../src/pipeline/test.operations.ts';
import {
  graphPipeline,
  listPipelines,
  showPipelineOperation,
} from '../../src/pipeline/operations.ts';
import { makePipelines } from '../support/pipelines.ts';
import { makeStubEngine, type StubEngine } from '../support/stub-engine.ts';

const pipelines = makePipelines(
  {
    name: 'orders',
    on: 'order.new',
    from_plugin: 'shop',
    if: { path: 'payload.sum', op: 'gt', value: 0 },
    concurrency: 2,
    on_halt: 'mail.alarm',
    steps: [
      { id: 'price', uses: 'shop.price' },
      { id: 'big', if: 'payload.sum > 100', approve: 'Pay {payload.sum}?', timeout: '1h' },
      { id: 'each', foreach: 'payload.items', steps: [{ id: 'pack', uses: 'store.pack' }] },
      { id: 'calm', wait: '1h' },
      { id: 'paid', wait: { signal: 'bank.paid' }, timeout: '1d' },
      { id: 'thank', uses: 'mail.send' },
    ],
  },
  { name: 'tiny', steps: [{ id: 'only', uses: 'shop.price' }] },
);

let engine: StubEngine;

beforeEach(async () => {
  engine = { ...(await makeStubEngine()), pipelines };
});

afterEach(async () => {
  await engine.ledger.close();
});

/** Invokes an operation, and checks the output against its schema. */
async function ask(operation: Operation, input: object = {}): Promise<JsonOutput> {
  const context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' } as const;
  const output = await invoke(operation, context, input);
  expect(operation.output.strict().parse(JSON.parse(JSON.stringify(output)))).toEqual(output);
  return output;
}

test('the list shows what starts each pipeline', async () => {
  expect(await ask(listPipelines)).toMatchObject({
    pipelines: [
      {
        name: 'orders',
        on: 'order.new',
        from_plugin: 'shop',
        if: 'payload.sum gt 0',
        execution_mode: 'async',
        timeout: '30s',
        concurrency: '2 of orders',
        on_halt: 'mail.alarm',
        steps: 7,
      },
      { name: 'tiny', on: null, from_plugin: null, if: null, concurrency: null, on_halt: null },
    ],
  });
});

test('a pipeline is shown with its steps, and drawn', async () => {
  const shown = await ask(showPipelineOperation, { pipeline: 'orders' });
  expect(shown['steps']).toMatchObject([
    { id: 'price', kind: 'task', does: 'shop.price', arms: [] },
    { id: 'big', kind: 'approve', notes: ['if payload.sum > 100', 'within 1h, then halt'] },
    { id: 'each', kind: 'foreach', arms: [{ label: null, steps: [{ id: 'pack' }] }] },
    { id: 'calm', does: 'wait 1h' },
    { id: 'paid', does: 'wait for bank.paid' },
    { id: 'thank' },
  ]);
  const drawn = await ask(graphPipeline, { pipeline: 'tiny' });
  expect(drawn['drawing']).toBe('tiny\n└─ only: shop.price');
  const picture = await ask(graphPipeline, { pipeline: 'orders', format: 'svg' });
  expect(picture['drawing']).toMatch(/^<svg .*<title>orders on order.new from shop<\/title>/s);
  await expect(ask(showPipelineOperation, { pipeline: 'order' })).rejects.toMatchObject({
    code: 'PIPELINE_NOT_FOUND',
    hint: 'Did you mean orders?',
  });
});

describe('a test', () => {
  const play = (input: object): Promise<JsonOutput> =>
    ask(testPipeline, { pipeline: 'orders', ...input });

  test('reports which step would run next, with its input and the reason', async () => {
    expect(await play({ payload: { sum: 5 } })).toMatchObject({
      status: 'open',
      steps: [],
      next: [
        {
          step: 'price',
          branch: '0',
          does: 'shop.price',
          input: { sum: 5 },
          why: 'it is the first step',
        },
      ],
      complete: true,
    });
    const priced = { 'shop.price': { events: [{ payload: { sum: 500, items: ['a'] } }] } };
    expect(await play({ responses: priced })).toMatchObject({
      steps: [{ step: 'price', status: 'succeeded', output: { sum: 500, items: ['a'] } }],
      next: [
        { step: 'big', kind: 'approve', does: null, message: 'Pay 500?', why: 'it follows price' },
      ],
    });
  });

  test('goes through to the end with an answer for each step', async () => {
    const responses = {
      price: { status: 'ok', result: 'priced' },
      big: { approved: true, by: 'ann', why: 'fine' },
      pack: [{ result: 'one' }, { events: [{ type: 'packed', payload: { box: 2 } }] }],
      paid: { signal: { iban: 'x' } },
      'mail.send': { result: 'sent' },
    };
    const output = await play({ payload: { sum: 101, items: ['a', 'b'] }, responses });
    expect(output).toMatchObject({
      status: 'succeeded',
      next: [],
      halts: [],
      on_halt: null,
      result: {
        sum: 101,
        result: 'sent',
        big: { approved: true, by: 'ann', why: 'fine' },
        each: [{ item: 'a', index: 0, result: 'one' }, { box: 2 }],
        paid: { iban: 'x' },
      },
    });
    const taken = output['steps'] as { step: string; branch: string; why: string }[];
    expect(taken.map(({ branch, step, why }) => `${branch} ${step}: ${why}`)).toEqual([
      '0 price: it is the first step',
      '0 big: it follows price',
      '0.0 pack: element 0 of each',
      '0.1 pack: element 1 of each',
      '0 each: it follows big',
      '0 calm: it follows each',
      '0 paid: it follows calm',
      '0 thank: it follows paid',
    ]);
  });

  test('reports where and why it would halt, and the handler that would run', async () => {
    const items = [1, 2];
    const responses = { price: {}, pack: [{ status: 'error', error: 'no box' }, {}] };
    expect(await play({ payload: { sum: 1, items }, responses })).toMatchObject({
      status: 'halted',
      on_halt: 'mail.alarm',
      halts: [
        { step: 'pack', branch: '0.0', reason: 'retries_exhausted', message: 'step pack: no box' },
        { step: 'each', branch: '0', reason: 'retries_exhausted', message: 'step pack: no box' },
      ],
    });
    const late = { price: {}, paid: { timeout: true } };
    expect(await play({ payload: { sum: 1, items: [] }, responses: late })).toMatchObject({
      status: 'halted',
      halts: [{ step: 'paid', reason: 'timeout' }],
    });
    expect(await play({ payload: { sum: 'x' }, responses: { price: {} } })).toMatchObject({
      halts: [{ step: 'big', reason: 'invalid_transition' }],
    });
  });

  test('can treat all steps without an answer as done', async () => {
    const payload = { sum: 500, items: [1] };
    expect(await play({ payload, assume_ok: true })).toMatchObject({ status: 'succeeded' });
  });

  test.each([
    [{ prize: {} }, 'responses.prize is not a step', 'Did you mean price?'],
    [{ price: { resultt: 1 } }, 'responses.price: ', 'Write the response of a plugin'],
    [
      { price: { approved: true } },
      'responses.price is not a response for a step of the kind task',
      'for a task',
    ],
  ])('refuses what answers nothing: %j', async (responses, message, hint) => {
    await expect(play({ responses })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      message: expect.stringContaining(message) as string,
      hint: expect.stringContaining(hint) as string,
    });
  });

  test('stops in time at a wide block and reports it', async () => {
    const items = Array.from({ length: 5000 }, (_, index) => index);
    const output = await play({ payload: { sum: 1, items }, assume_ok: true });
    expect(output).toMatchObject({ status: 'open', complete: false });
    expect((output['steps'] as unknown[]).length).toBeLessThan(1100);
  });

  test('with a run requires the scope to read runs', async () => {
    const { scope } = testPipeline;
    if (typeof scope !== 'function') throw new TypeError('the scope depends on the input');
    const context = { engine, principal: ownerOf('x'), submittedBy: 'api' } as const;
    expect(scope(context, { pipeline: 'tiny' })).toBe('plugin:ro');
    expect(scope(context, { pipeline: 'tiny', run: '0199' })).toBe('runs:ro');
    await expect(play({ run: '0199a1b2' })).rejects.toMatchObject({ code: 'RUN_NOT_FOUND' });
  });
});
