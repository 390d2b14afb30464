/** Pages of signals, directives, runs and deliveries: every combination of filters gives what fits. */
import { describe, expect, test } from 'vitest';
import type { ListPage } from '../../src/ledger/walk.ts';
import { databases, openBench, type Bench } from '../support/ledger/bench.ts';

const ROWS = 120;

async function fill({ kind, sql }: Bench): Promise<void> {
  const numbers =
    kind === 'sqlite'
      ? `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${ROWS})`
      : `with n(i) as (select generate_series(1, ${ROWS}))`;
  const hour = kind === 'sqlite' ? `printf('%02d', i % 24)` : `to_char(i % 24, 'FM00')`;
  const at = `'2026-01-01T' || ${hour} || ':00:00.000Z'`;
  await sql(`insert into signals (id, type, source, subject_type, subject_id, data, correlation_id,
      visibility, occurred_at, inserted_at)
    ${numbers} select 'signal ' || i, 'type.' || (i % 3), 'source ' || (i % 4), 'order',
      case when i % 2 = 0 then 'subject ' || (i % 5) end, '{}', 'chain ' || (i % 6),
      case when i % 7 = 0 then 'admin_only' else 'internal' end, ${at}, ${at} from n where true`);
  await sql(`insert into directives (id, type, target, params, actor, scope, correlation_id,
      idempotency_key, status, plan, attempt, max_attempts, process_id, signal_id, requested_at,
      awaiting_approval, run_at, completed_at, error_message)
    ${numbers} select 'directive ' || i, 'type ' || (i % 3), 'target ' || (i % 4), '{}',
      'actor ' || (i % 5), 's', 'c', 'key ' || i,
      case i % 6 when 0 then 'requested' when 1 then 'failed' else 'completed' end, '[]',
      case when i % 6 = 0 then 0 else 1 end, 1, 'p', 'signal ' || i, ${at},
      case when i % 12 = 0 then 1 else 0 end, ${at}, case when i % 6 = 0 then null else ${at} end,
      case when i % 6 = 1 then 'broken' end from n where true`);
  await sql(`insert into pipeline_definitions (hash, name, graph, created_at, last_used_at)
    values ('hash', 'flow', '{"nodes":{}}', '2026', '2026')`);
  await sql(`insert into pipeline_runs (id, pipeline, definition_hash, status, payload, submitted_by,
      actor, first_job_id, root_job_id, lineage, created_at, completed_at,
      halt_reason)
    ${numbers} select 'run ' || i, 'flow ' || (i % 3), 'hash',
      case i % 5 when 0 then 'halted' when 1 then 'cancelled' else 'succeeded' end, '{}', 'api', 'api',
      'job ' || i, 'job ' || i, 'run ' || i, ${at}, ${at},
      case when i % 5 = 0 then 'step_failed' end from n where true`);
  await sql(`insert into webhook_deliveries (id, hook_id, verdict, reason, source, headers, body_bytes,
      received_at)
    ${numbers} select 'delivery ' || i, 'hook ' || (i % 3),
      case i % 5 when 0 then 'refused' when 1 then 'failed' else 'accepted' end,
      case when i % 5 in (0, 1, 2) then 'why' end, 'here', '{}', 1, ${at} from n where true`);
}

type Choices = Readonly<Record<string, readonly unknown[]>>;

/** Every combination of the values; a missing one is always among them. */
function combine(choices: Choices): Readonly<Record<string, unknown>>[] {
  return Object.entries(choices).reduce<Record<string, unknown>[]>(
    (all, [name, values]) => [
      ...all,
      ...all.flatMap((one) => values.map((value) => ({ ...one, [name]: value }))),
    ],
    [{}],
  );
}

interface ListCase {
  readonly choices: Choices;
  readonly page: (bench: Bench, filter: never) => Promise<ListPage<{ readonly id: string }>>;
  readonly list: (bench: Bench, filter: never) => Promise<readonly { readonly id: string }[]>;
}

const cases: Readonly<Record<string, ListCase>> = {
  signals: {
    choices: {
      type: ['type.1'],
      source: ['source 1', 'none'],
      subjectId: ['subject 2'],
      subjectType: ['order'],
      correlationId: ['chain 3'],
      visibility: ['internal'],
      from: ['2026-01-01T03:00:00.000Z'],
      to: ['2026-01-01T15:00:00.000Z'],
      order: ['oldest'],
    },
    page: ({ ledger }, filter) => ledger.signals.page(filter),
    list: ({ ledger }, filter) => ledger.signals.list(filter),
  },
  directives: {
    choices: {
      type: ['type 1'],
      actor: ['actor 2'],
      target: ['target 3', 'none'],
      status: [['failed', 'completed'], ['requested']],
      awaitingApproval: [true, false],
    },
    page: ({ ledger }, filter) => ledger.directives.page(filter),
    list: ({ ledger }, filter) => ledger.directives.list(filter),
  },
  runs: {
    choices: {
      pipeline: ['flow 1', 'none'],
      status: [['halted', 'succeeded'], ['running']],
      awaitingApproval: [true],
    },
    page: ({ ledger }, filter) => ledger.runs.page(filter),
    list: ({ ledger }, filter) => ledger.runs.list(filter),
  },
  deliveries: {
    choices: {
      webhookId: ['hook 1', 'none'],
      verdict: ['accepted', 'skipped', 'refused', 'failed'],
    },
    page: ({ ledger }, filter) => ledger.deliveries.page(filter),
    list: ({ ledger }, filter) => ledger.deliveries.list(filter),
  },
};

async function readAll({ page }: ListCase, bench: Bench, filter: object): Promise<string[]> {
  const ids: string[] = [];
  let next: number | undefined;
  do {
    const more = next === undefined ? {} : { beforeSeq: next };
    const found = await page(bench, { ...filter, ...more } as never);
    ids.push(...found.rows.map(({ id }) => id));
    next = found.next;
  } while (next !== undefined);
  return ids;
}

describe.each(databases)('pages on %s', (kind) => {
  test.each(Object.keys(cases))(
    'with %s return what fits, once and in order, for every combination of filters',
    { timeout: 600_000 },
    async (name) => {
      const bench = await openBench(kind);
      await fill(bench);
      const one = cases[name];
      if (one === undefined) throw new Error(`there is no case ${name}`);
      for (const filter of combine(one.choices)) {
        const all = await one.list(bench, { ...filter, limit: ROWS } as never);
        const ids = all.map(({ id }) => id);
        expect({ filter, ids: await readAll(one, bench, { ...filter, limit: 11 }) }).toEqual({
          filter,
          ids,
        });
        // Cut short again and again, the pages still have everything.
        const short = { ...filter, limit: 3, visitMax: 10 };
        expect({ filter, ids: await readAll(one, bench, short) }).toEqual({ filter, ids });
      }
    },
  );
});
