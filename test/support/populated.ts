/** An installation with much data: long errors, many attempts, wide pipelines. */
import { toTimestamp } from '../../src/base/clock.ts';
import { makePlace, type TestPlace } from './instance.ts';
import { manifest } from './packages.ts';
import { succeeds } from './plugin-program.ts';

export const PLUGINS = 50;
export const STEPS = 200;
export const ATTEMPTS = 100;
/** The number of dead jobs, signals, deliveries, incidents, directives and facts. */
export const ROWS = 120;

/** Job with a hundred attempts, and one of its signals. */
export const JOB = '01990000-0000-7000-8000-000000000001';
export const SIGNAL = '01990000-0000-7000-8000-100000000001';

export async function makePopulated(): Promise<TestPlace> {
  const names = Array.from({ length: PLUGINS }, (_, index) => `plugin-${index}`);
  const fields = Array.from({ length: 12 }, (_, index) => `field_${index}: {type: string}`);
  const commands = `{poll: {type: read, description: Looks for new messages in the mailbox},
    handle: {description: Sends a message, input_schema: {type: object, properties: {${fields.join(', ')}}}}}`;
  const place = await makePlace({
    plugins: Object.fromEntries(
      names.map((name) => [
        name,
        {
          program: succeeds,
          commands,
          settings: { schedules: [{ id: 'nightly', cron: '17 3 * * *', command: 'poll' }] },
        },
      ]),
    ),
    routes: names.slice(1).map((to) => ({ from: 'plugin-0', event_type: `to.${to}`, to })),
    pipelines: [
      {
        name: 'long',
        steps: Array.from({ length: STEPS }, (_, index) => ({
          id: `step-${index}`,
          uses: `plugin-${index % PLUGINS}`,
          with: { note: 'A text that explains what this step is given, and why.' },
        })),
      },
      ...Array.from({ length: 40 }, (_, index) => ({
        name: `flow-${index}`,
        on: `flow.${index}`,
        steps: [{ id: 'only', uses: 'plugin-1' }],
      })),
    ],
    packages: Object.fromEntries(
      Array.from({ length: 30 }, (_, index) => [`package-${index}`, packageOf(index)]),
    ),
    webhooks: { listen: '127.0.0.1:0' },
    api: { enabled: true, listen: '127.0.0.1:0', auth: { api_key: 'a-key-for-tests-0123456789' } },
    service: { max_workers: 2 },
  });
  await fill(place);
  return place;
}

function packageOf(index: number) {
  return manifest({
    slug: `package-${index}`,
    title: `Package ${index}`,
    description: 'Watches a folder and reports what arrives in it. '.repeat(4).trim(),
    requires: [{ plugin: 'plugin-1', commands: ['poll'] }],
  });
}

/** Inserts rows directly, which is fast. */
async function fill(place: TestPlace): Promise<void> {
  const at = toTimestamp(Date.now() - 3_600_000);
  const numbers = (count: number): string =>
    `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})`;
  const id = (kind: number, i: string): string =>
    `'01990000-0000-7000-8000-${kind}' || printf('%011d', ${i})`;
  const error = 'Error: connect ECONNREFUSED 10.0.0.7:993 at TCPConnectWrap. '.repeat(30);
  await place.sql(
    `insert into job_queue (id, plugin, command, payload, status, attempt, max_attempts, retry_count,
       crash_count, submitted_by, actor, created_at, ready_at, started_at, completed_at, last_error,
       reason, root_job_id, parent_job_id, source_event_id, idempotency_key)
     ${numbers(ROWS)} select ${id(0, 'i')}, 'plugin-' || (i % ${PLUGINS}), 'poll', ?, 'dead', 100, 100,
       100, 0, 'schedule', 'schedule', ?, ?, ?, ?, ?, 'retries_exhausted', ${id(0, '1')},
       case when i = 1 then null else ${id(0, '1')} end, ${id(1, '1')}, 'key ' || i from n`,
    JSON.stringify({ text: 'p'.repeat(2000) }),
    at,
    at,
    at,
    at,
    error,
  );
  const headers = { accept: '*/*', authorization: '[redacted]' };
  const data = JSON.stringify({ headers, text: 'd'.repeat(900) });
  await place.sql(
    `insert into signals (id, type, source, data, correlation_id, occurred_at, inserted_at, job_id,
       job_attempt, event_index)
     ${numbers(ROWS)} select ${id(1, 'i')}, 'mail.arrived', 'plugin:plugin-1', ?, ${id(1, '1')}, ?, ?,
       ${id(0, '1')}, 1, i from n`,
    data,
    at,
    at,
  );
  await place.sql(
    `insert into job_log (id, job_id, plugin, command, status, cause, result, attempt, submitted_by,
       created_at, started_at, completed_at, last_error, stderr, exit_code, pid, queue_ms, run_ms,
       process_id)
     ${numbers(ATTEMPTS)} select ${id(0, '1')} || '-' || i, ${id(0, '1')}, 'plugin-1', 'poll', 'crashed', 'crash',
       null, i, 'schedule', ?, ?, ?, 'process ' || (1000 + i) || ' was killed: ' || ?, ?, 137, 1000 + i,
       3, 20, 'p' from n`,
    at,
    at,
    at,
    error,
    'a line of a stack trace\n'.repeat(100),
  );
  const headerPairs = JSON.stringify(Array.from({ length: 20 }, (_, n) => [`x-h-${n}`, 'v']));
  await place.sql(
    `insert into webhook_deliveries (id, hook_id, verdict, reason, source, headers, body_bytes,
       received_at)
     ${numbers(ROWS)} select ${id(3, 'i')}, 'hook-1', 'refused', 'the signature does not match',
       '10.0.0.9', ?, 100, ? from n`,
    headerPairs,
    at,
  );
  await place.sql(
    `insert into incidents (id, kind, key, opened_at, last_seen_at, closed_at, count, detail)
     ${numbers(ROWS)} select ${id(4, 'i')}, 'failure_streak', 'plugin-' || i || '/poll', ?, ?, ?, 9, ?
       from n`,
    at,
    at,
    at,
    JSON.stringify({ message: error, plugin: 'plugin-1', command: 'poll' }),
  );
  await place.sql(
    `insert into directives (id, type, target, params, actor, scope, correlation_id, idempotency_key,
       status, plan, attempt, max_attempts, process_id, signal_id, requested_at, started_at,
       completed_at)
     ${numbers(ROWS)} select ${id(5, 'i')}, 'plugin.disable', 'plugin-1', ?, 'api', 's', 'c', 'key ' || i,
       'completed', ?, 1, 1, 'p', ${id(1, '1')}, ?, ?, ? from n`,
    JSON.stringify({ plugin: 'plugin-1', note: 'n'.repeat(300) }),
    JSON.stringify(['Plugin plugin-1 would be disabled, with 7 jobs that wait for it.']),
    at,
    at,
    at,
  );
  await place.sql(
    `insert into plugin_facts (seq, plugin_name, fact_type, fact_json, created_at)
     ${numbers(ROWS)} select i, 'plugin-1', 'seen', ?, ? from n`,
    JSON.stringify({ text: 'f'.repeat(300) }),
    at,
  );
  await place.sql(`update storage_sequences set value = ${ROWS}`);
}
