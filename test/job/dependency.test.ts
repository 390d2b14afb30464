/** Dependency keys and quiet hours, in requests and in results. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';

// Quiet hours around the time of the test.
const hour = new Date().getUTCHours();
const quiet = { quiet_start: (hour + 21) % 24, quiet_end: (hour + 3) % 24, timezone: 'UTC' };

let api: TestApi;

beforeAll(async () => {
  api = await startApi({
    service: { max_workers: 8 },
    plugins: {
      teller: {
        schedules: [
          { id: 'in-turn', every: '1h', dependency: 'shared' },
          { id: 'left-out', every: '100ms', ...quiet },
          { id: 'put-off', every: '100ms', quiet_action: 'defer', ...quiet },
        ],
      },
    },
  });
});

afterAll(async () => {
  await api.close();
});

const inspect = async (id: unknown) => (await api.ask(`/job/${String(id)}`)).body;

async function schedule(id: string): Promise<Record<string, unknown> | undefined> {
  const { body } = await api.ask('/schedules?plugin=teller');
  const rows = body['schedules'] as readonly Record<string, unknown>[];
  return rows.find((row) => row['schedule_id'] === id);
}

describe('a dependency', () => {
  test('is shown, and a waiting job names the holder', async () => {
    const first = await api.ask('/plugin/sleeper/poll?dependency=k', { body: '{}' });
    expect(first.status).toBe(202);
    const holder = first.body['job_id'];
    const isRunning = async () => (await inspect(holder))['status'] === 'running';
    await eventually('it runs', isRunning);
    const second = await api.ask('/plugin/echo/poll?dependency=k', { body: '{}' });
    const waiting = await inspect(second.body['job_id']);
    expect(waiting).toMatchObject({
      status: 'queued',
      dependency: 'k',
      waiting: `dependency k, held by job ${String(holder)}`,
    });
    const triggered = await api.ask('/trigger/echo/poll?dependency=k', { body: '{}' });
    expect(await inspect(triggered.body['job_id'])).toMatchObject({ dependency: 'k' });
    const free = await api.ask('/plugin/echo/poll?wait=20s', { body: '{}' });
    expect(free).toMatchObject({ status: 200, body: { status: 'succeeded', dependency: null } });
    await api.ask(`/job/${String(holder)}/cancel`, { body: '{}' });
    const done = await eventually('its turn has come', async () => {
      const job = await inspect(second.body['job_id']);
      return job['status'] === 'succeeded' ? job : undefined;
    });
    expect(done).toMatchObject({ dependency: 'k', waiting: null });
    const again = await api.ask(`/job/${String(holder)}/retry`, { body: '{}' });
    const retried = await inspect(again.body['job_id']);
    expect(retried).toMatchObject({ retry_of: holder, dependency: 'k' });
    await api.ask(`/job/${String(retried['job_id'])}/cancel`, { body: '{}' });
  });

  test.each(['%20', '%00', 'a'.repeat(201)])('%s is refused', async (key) => {
    const path = `/plugin/echo/poll?dependency=${key}`;
    expect(await api.ask(path, { body: '{}' })).toMatchObject({
      status: 400,
      body: { code: 'INPUT_INVALID', place: 'dependency' },
    });
  });

  test('is passed on from a schedule to its jobs', async () => {
    const row = await eventually('it has fired', async () => {
      const found = await schedule('in-turn');
      return found?.['last_job_id'] === null ? undefined : found;
    });
    expect(await inspect(row['last_job_id'])).toMatchObject({ dependency: 'shared' });
  });
});

describe('quiet hours', () => {
  test('leave a time out, and the schedule says so', async () => {
    const row = await eventually('a time has passed', async () => {
      const found = await schedule('left-out');
      return found?.['last_skip_reason'] === null ? undefined : found;
    });
    expect(row).toMatchObject({
      status: 'active',
      last_skip_reason: 'quiet_hours',
      last_fired_at: null,
    });
  });

  test('put a time off to their end, as the preview says', async () => {
    const row = await eventually('it is put off', async () => {
      const found = await schedule('put-off');
      return found?.['last_skip_reason'] === null ? undefined : found;
    });
    const end = new Date(String(row['next_run_at']));
    expect([end.getUTCHours(), end.getUTCMinutes(), end.getUTCSeconds()]).toEqual([
      quiet.quiet_end,
      0,
      0,
    ]);
    expect(row).toMatchObject({ last_skip_reason: 'quiet_hours', last_fired_at: null });
    const { body } = await api.ask('/schedules/preview?plugin=teller');
    const times = body['times'] as readonly Record<string, unknown>[];
    const [first] = times.filter((time) => time['schedule_id'] === 'put-off');
    expect(first).toMatchObject({ at: row['next_run_at'], fires: true });
    const [left] = times.filter((time) => time['schedule_id'] === 'left-out');
    expect(left).toMatchObject({ fires: false, reason: 'quiet_hours' });
  });
});
