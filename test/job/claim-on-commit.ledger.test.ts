/** Work that is claimed in the commit that accepts it, where writes of one moment share one. */
import { expect, test } from 'vitest';
import { makeToken } from '../../src/base/ids.ts';
import type { ClaimedJob } from '../../src/job/types.ts';
import { define } from '../support/ledger/runs.ts';
import { databases, openBench } from '../support/ledger/bench.ts';
import { beat, claimable, request } from '../support/ledger/drafts.ts';
import { task } from '../pipeline/graphs.ts';
import type { Config } from '../../src/config/config.ts';
import type { LedgerContext } from '../../src/engine/context.ts';
import { announceWork, makeEnqueuer } from '../../src/job/enqueue.service.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { Pipeline } from '../../src/pipeline/language/pipeline.ts';
import { makeRunStarter } from '../../src/pipeline/run/start.service.ts';
import type { Catalog } from '../../src/plugin/catalog.ts';
import { makeSignalEmitter } from '../../src/signal/emit.service.ts';
import { makeContext } from '../support/context.ts';

const author = { submittedBy: 'api', actor: 'test' } as const;
const poll = { plugin: 'echo', command: 'poll', payload: {}, ...author };
const reported = { type: 'a.b', source: 'api', data: {}, actor: 'test' };

/** A ledger's context whose routes send every signal to `targets`. */
function makeEntrance(
  ledger: Ledger,
  targets: readonly { plugin: string; command: string; maxAttempts: number }[],
  pipelines: readonly Pipeline[] = [],
): LedgerContext {
  const plugin = { name: 'echo', manifest: { commands: { poll: {} } }, retry: { maxAttempts: 1 } };
  const catalog = { plugins: new Map([['echo', plugin]]), unloaded: new Map() };
  const generation = {
    config: { service: { dedupeTtlMs: 1000 } } as Config,
    catalog: catalog as unknown as Catalog,
    pipelines,
    rules: { targetsOf: () => targets, hopsMax: 9, dedupeTtlMs: 1000 },
  };
  return makeContext({ ledger, generation });
}

test('the claim on SQLite follows the write and comes before its commit', async () => {
  const { ledger } = await openBench('sqlite');
  const graph = await define(ledger, [task('only', { plugin: 'echo' })]);
  await ledger.processes.heartbeat(beat('p1'));
  const claims: Promise<ClaimedJob[]>[] = [];
  const claim = request('p1', { slots: 9, plugins: [claimable('echo', { parallelism: 9 })] });
  const target = { plugin: 'echo', command: 'poll', maxAttempts: 1 };
  const pipeline = { name: graph.name, graph } as Pipeline;
  const context = makeEntrance(ledger, [target], [pipeline]);
  context.commits.subscribe(({ arriving }) => {
    if (arriving !== true) return;
    setImmediate(() => claims.push(ledger.jobs.claim({ ...claim, token: makeToken() })));
  });
  /** The number of jobs that were claimed by the claims started when the write returned. */
  const claimedWith = async (write: Promise<unknown>): Promise<number> => {
    await write;
    return (await Promise.all(claims.splice(0))).flat().length;
  };

  expect(await claimedWith(makeEnqueuer(context).submit(poll))).toBe(1);
  expect(await claimedWith(makeSignalEmitter(context).emit(reported))).toBe(1);
  const run = { pipeline: graph.name, payload: {}, ...author };
  expect(await claimedWith(makeRunStarter(context).start(run))).toBe(1);
});

test.each(databases)('a commit without new work is not announced, on %s', async (kind) => {
  const { ledger } = await openBench(kind);
  let announced = 0;
  const context = makeEntrance(ledger, []);
  context.commits.subscribe(({ arriving }) => {
    if (arriving === true) announced += 1;
  });
  await makeSignalEmitter(context).emit(reported);
  announceWork(context, []);
  expect(announced).toBe(0);
  await makeEnqueuer(context).submit(poll);
  // Elsewhere the claim would be another transaction, and come too early.
  expect(announced).toBe(kind === 'sqlite' ? 1 : 0);
});
