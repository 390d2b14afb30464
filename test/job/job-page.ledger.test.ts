/** Pages of jobs: every combination of filters returns the matching jobs, and reads few rows. */
import { describe, expect, test } from 'vitest';
import type { JobPageFilter } from '../../src/job/types.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { JobStatus } from '../../src/job/job.ts';
import { databases, openBench, type Bench } from '../support/ledger/bench.ts';

const ROWS = 240;

/** Jobs of three plugins in every state, in no order. */
async function fill({ kind, sql }: Bench): Promise<void> {
  const numbers =
    kind === 'sqlite'
      ? `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${ROWS})`
      : `with n(i) as (select generate_series(1, ${ROWS}))`;
  const hour = kind === 'sqlite' ? `printf('%02d', i / 10)` : `to_char(i / 10, 'FM00')`;
  const at = `'2026-01-01T' || ${hour} || ':00:00.000Z'`;
  const status = `case i % 12 when 0 then 'failed' when 1 then 'dead' when 2 then 'timed_out'
    when 3 then 'cancelled' when 4 then 'skipped' when 5 then 'queued' when 6 then 'queued'
    when 7 then 'queued' else 'succeeded' end`;
  const isOpen = 'i % 12 in (5, 6, 7)';
  await sql(`insert into job_queue (id, plugin, command, status, submitted_by, actor, created_at,
      ready_at, completed_at, next_retry_at, root_job_id, idempotency_key, dependency_key, last_error)
    ${numbers} select 'job ' || i, 'plugin ' || (i % 3), case when i % 7 = 0 then 'poll' else 'handle'
      end, ${status}, case when i % 5 = 0 then 'webhook' else 'api' end, 'api', ${at}, ${at},
      case when ${isOpen} then null else ${at} end, case when i % 12 = 6 then '2100-01-01T00:00:00.000Z' end,
      'job ' || i, 'job ' || i, case when i % 12 = 7 then 'key ' || (i % 4) end,
      case when i % 4 = 0 then 'It BROKE 100%' end from n where true`);
  await sql(`insert into job_log (id, job_id, plugin, command, status, cause, attempt, submitted_by,
      created_at, completed_at)
    ${numbers} select 'job ' || i || '-1', 'job ' || i, 'plugin ' || (i % 3), 'handle', 'succeeded',
      'ok', 1, 'api', ${at}, ${at} from n where i % 12 > 7`);
}

type Choice = Omit<JobPageFilter, 'limit'>;

const choices: Readonly<Record<string, readonly Choice[]>> = {
  plugin: [{}, { plugin: 'plugin 1' }, { plugin: 'none' }],
  command: [{}, { command: 'poll' }],
  status: [
    {},
    { status: ['queued'] },
    { status: ['failed', 'dead', 'timed_out'] },
    { status: ['succeeded'] },
    { status: ['queued', 'running', 'cancelled', 'succeeded'] },
  ],
  submittedBy: [{}, { submittedBy: 'webhook' }],
  time: [{}, { from: '2026-01-01T06:00:00.000Z', to: '2026-01-01T15:00:00.000Z' }],
  query: [{}, { query: 'broke 100%' }],
};

const combinations = Object.values(choices).reduce<Choice[]>(
  (all, some) => all.flatMap((one) => some.map((more) => ({ ...one, ...more }))),
  [{}],
);

async function readAll(ledger: Ledger, filter: JobPageFilter): Promise<string[]> {
  const ids: string[] = [];
  let next: number | undefined;
  do {
    const page = await ledger.jobs.page({
      ...filter,
      ...(next === undefined ? {} : { beforeSeq: next }),
    });
    expect(page.jobs.length).toBeLessThanOrEqual(filter.limit);
    ids.push(...page.jobs.map(({ id }) => id));
    next = page.next;
  } while (next !== undefined);
  return ids;
}

describe.each(databases)('pages of jobs on %s', (kind) => {
  test(
    'give what fits, once and in order, for every combination of filters',
    { timeout: 600_000 },
    async () => {
      const bench = await openBench(kind);
      await fill(bench);
      const { ledger } = bench;
      for (const [at, choice] of combinations.entries()) {
        const order = at % 2 === 0 ? 'newest' : 'oldest';
        const all = await ledger.jobs.list({ ...choice, order, limit: ROWS });
        const expected = all.map(({ id }) => id);
        const limit = 7 + (at % 40);
        expect({ choice, ids: await readAll(ledger, { ...choice, order, limit }) }).toEqual({
          choice,
          ids: expected,
        });
        // Cut short again and again, the pages still have everything.
        expect({
          choice,
          ids: await readAll(ledger, { ...choice, order, limit: 3, visitMax: 20 }),
        }).toEqual({
          choice,
          ids: expected,
        });
        expect({ choice, ...(await ledger.jobs.countPage({ ...choice, limit: 1 })) }).toEqual({
          choice,
          count: expected.length,
          isExact: true,
        });
      }
    },
  );

  test('are counted up to a bound, and the count says so', async () => {
    const { ledger, ...bench } = await openBench(kind);
    await fill({ ledger, ...bench });
    expect(await ledger.jobs.countPage({ limit: 1, visitMax: 100 })).toEqual({
      count: 100,
      isExact: false,
    });
    const failed: JobStatus[] = ['failed'];
    expect(await ledger.jobs.countPage({ status: failed, limit: 1, visitMax: 100 })).toEqual({
      count: ROWS / 12,
      isExact: true,
    });
  });
});
