/** Pipelines of any shape give the result of the model, in whatever order their jobs end. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import type { ClaimedJob } from '../../src/job/types.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { Graph } from '../../src/pipeline/language/graph.ts';
import { cases, makePlay, name } from './arbitrary.ts';
import { foreach, task } from './graphs.ts';
import { firstOf, lay, meaningOf, type Meaning, type Play } from './model.ts';
import { advanceAll, claimSteps, define, done, findRun, start } from '../support/ledger/runs.ts';
import { databases, openBench, type Kind } from '../support/ledger/bench.ts';
import { fail } from '../support/ledger/drafts.ts';

const runsOf: Readonly<Record<Kind, number>> = { sqlite: 100, postgres: 40 };
const ID_LENGTH = 36;

type StepRequest = Meaning['asked'][number];

/** The position of a branch, from its id: the run's, then the move and the index of each level. */
function pathOf(branchId: string): string {
  const parts = branchId.slice(ID_LENGTH).split('.').slice(1);
  const indexes = parts.filter((_, at) => at % 2 === 1).map(Number);
  return ['0', ...indexes].join('.');
}

async function askedOf(ledger: Ledger, job: ClaimedJob): Promise<StepRequest> {
  const { baseKey, payload, stepId, branchId } = job;
  const base =
    baseKey === null ? {} : (JSON.parse(await ledger.runs.readBasePayload(baseKey)) as JsonObject);
  const input = { ...base, ...(JSON.parse(payload) as JsonObject) };
  return [stepId ?? '', pathOf(branchId ?? ''), input];
}

function conclude(job: ClaimedJob, play: Play): Closing {
  const arrival = play(job.stepId ?? '', pathOf(job.branchId ?? ''));
  if (arrival.kind === 'done') return done(job, arrival.result, arrival.events);
  const { ending, report, ...closing } = fail(job);
  // Only a timeout is a failure of the model.
  expect(arrival.reason).toBe('timeout');
  const { error } = arrival;
  return { ...closing, ending: { ...ending, status: 'timed_out' }, report: { ...report, error } };
}

/** Settles jobs in the order and the groups that the numbers choose. */
async function carryOn(
  ledger: Ledger,
  graph: Graph,
  play: Play,
  choices: readonly number[],
): Promise<StepRequest[]> {
  const requests: StepRequest[] = [];
  let turn = 0;
  const choose = (): number => choices[turn++ % choices.length] ?? 0;
  for (let open: ClaimedJob[] = []; ;) {
    await advanceAll(ledger);
    const claimed = await claimSteps(ledger, graph);
    for (const job of claimed) requests.push(await askedOf(ledger, job));
    open.push(...claimed);
    if (open.length === 0) return requests;
    const [at, count] = [choose() % open.length, 1 + (choose() % 3)];
    const ending = open.slice(at, at + count);
    open = open.filter((job) => !ending.includes(job));
    await ledger.jobs.settle(ending.map((job) => conclude(job, play)));
  }
}

function inOrder(asked: readonly StepRequest[]): StepRequest[] {
  return asked.toSorted((a, b) => (`${a[1]} ${a[0]}` < `${b[1]} ${b[0]}` ? -1 : 1));
}

describe.each(databases)('pipelines on %s', (kind) => {
  test('behave as their structure says', async () => {
    const { ledger } = await openBench(kind);
    const choices = fc.array(fc.nat(100), { minLength: 1, maxLength: 20 });
    const property = fc.asyncProperty(cases, choices, async ([list, begin, answers], order) => {
      const trees = name(list);
      const play = makePlay(answers);
      const graph = await define(ledger, lay(trees, '', null), { first: firstOf(trees) });
      const { outcome, asked } = meaningOf(trees, begin, play);
      const { id } = await start(ledger, graph, begin);
      expect(inOrder(await carryOn(ledger, graph, play, order))).toEqual(inOrder(asked));
      const run = await findRun(ledger, id);
      if ('halt' in outcome) {
        expect(run).toMatchObject({ status: 'halted', haltReason: outcome.halt });
      } else {
        expect(run.status).toBe('succeeded');
        expect(JSON.parse(run.output ?? 'null')).toEqual(outcome.end);
      }
    });
    await fc.assert(property, { numRuns: runsOf[kind], seed: 1 });
    expect(await ledger.check()).toEqual([]);
  });

  test('do not see the payload that an event replaced, in blocks that start with it', async () => {
    const { ledger } = await openBench(kind);
    const when = { path: ['payload', 'result'], op: 'exists', value: null } as const;
    const graph = await define(ledger, [
      task('a', { next: 'all' }),
      foreach('all', 'b'),
      task('b', { next: 'inner' }),
      foreach('inner', 'c'),
      task('c', { when }),
    ]);
    const { id } = await start(ledger, graph, { items: [1] });
    const play: Play = (step) => ({
      kind: 'done',
      events: step === 'b' ? [{ items: [2] }] : [],
      result: 'ok',
    });
    const waiting = await carryOn(ledger, graph, play, [0]);
    expect(waiting.map(([step]) => step)).toEqual(['a', 'b']);
    expect(JSON.parse((await findRun(ledger, id)).output ?? 'null')).toEqual({
      items: [1],
      result: 'ok',
      all: [{ items: [2], inner: [{ item: 2, index: 0 }] }],
    });
  });
});
