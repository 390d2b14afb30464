/** The API as its documents specify it, on both databases. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openRaw } from '../support/ledger/bench.ts';
import { startApi, type TestApi } from '../support/api-server.ts';
import { databases, eventually } from '../support/instance.ts';

describe.each(databases)('on %s', (database) => {
  let api: TestApi;

  beforeAll(async () => {
    api = await startApi({ database });
  });

  afterAll(async () => {
    await api.close();
  });

  const run = (path: string, body = '', headers: Readonly<Record<string, string>> = {}) =>
    api.ask(path, { body, headers });

  test('a command is accepted with the four fields of the document, and its job found', async () => {
    const reply = await run('/plugin/echo/handle', '{"payload":{"message":"hi"}}');
    expect(reply.status).toBe(202);
    const id = String(reply.body['job_id']);
    expect(reply.body).toEqual({ job_id: id, status: 'queued', plugin: 'echo', command: 'handle' });
    const job = await eventually('it succeeded', async () => {
      const { body } = await api.ask(`/job/${id}`);
      return body['status'] === 'succeeded' && body;
    });
    expect(job).toMatchObject({
      job_id: id,
      plugin: 'echo',
      command: 'handle',
      submitted_by: 'api',
      payload: { message: 'hi' },
      result: { status: 'ok', result: 'done' },
      created_at: expect.any(String),
      started_at: expect.any(String),
      completed_at: expect.any(String),
    });
  });

  test('the older place does the same, and a caller may wait', async () => {
    expect((await run('/trigger/echo/poll?async=true', '{"payload":{}}')).status).toBe(202);
    const waited = await run('/plugin/echo/poll?wait=10s');
    expect(waited.status).toBe(200);
    expect(waited.body).toMatchObject({ status: 'succeeded', duration_ms: expect.any(Number) });
  });

  test('a caller that waits too long gets a timeout', async () => {
    const reply = await run('/plugin/sleeper/poll?wait=20ms');
    expect([reply.status, reply.body['timeout_exceeded']]).toEqual([202, true]);
    await api.ask(`/job/${String(reply.body['job_id'])}/cancel`, { body: '{}' });
  });

  test('a caller may ask for a longer wait than five minutes, up to max_sync_timeout', async () => {
    const long = await run('/plugin/echo/poll?wait=10m');
    expect([long.status, long.body['status']]).toEqual([200, 'succeeded']);
    expect((await run('/plugin/echo/poll?wait=25d')).status).toBe(400);
  });

  test('jobs are listed with a total, by state under each of its names, page by page', async () => {
    const all = await api.ask('/jobs');
    expect(all.body['total']).toBe((all.body['jobs'] as unknown[]).length);
    const native = await api.ask('/jobs?status=succeeded&plugin=echo');
    const alias = await api.ask('/jobs?status=ok&plugin=echo');
    expect(alias.body).toEqual(native.body);
    const ids: unknown[] = [];
    for (let path = '/jobs?limit=1'; ;) {
      const { body } = await api.ask(path);
      ids.push(...(body['jobs'] as { job_id: string }[]).map(({ job_id }) => job_id));
      if (body['next_cursor'] === null) break;
      path = `/jobs?limit=1&cursor=${body['next_cursor'] as string}`;
    }
    const listed = (all.body['jobs'] as { job_id: string }[]).map(({ job_id }) => job_id);
    expect(ids).toEqual(listed);
  });

  test('the beginning of several ids returns them', async () => {
    const ids = [await run('/plugin/echo/poll'), await run('/plugin/echo/poll')].map(({ body }) =>
      String(body['job_id']),
    );
    const [first = '', second = ''] = ids;
    let length = 0;
    while (first[length] === second[length]) length += 1;
    const { status, body } = await api.ask(`/job/${first.slice(0, length)}`);
    expect([status, body['code']]).toEqual([400, 'INPUT_INVALID']);
    expect(body['details']).toEqual({ candidates: expect.arrayContaining(ids) as unknown });
    expect(body['hint']).toContain(first);
  });

  test('a cursor of another ledger is refused as what it is', async () => {
    const cursor = Buffer.from('j.00000000.5').toString('base64url');
    expect(await api.ask(`/jobs?cursor=${cursor}`)).toMatchObject({
      status: 410,
      body: { code: 'CURSOR_RESET' },
    });
  });

  describe('a key', () => {
    const place = '/plugin/echo/poll';
    const key = (name: string) => ({ 'idempotency-key': name });

    test('makes the same request the same answer, and another one an error', async () => {
      const first = await run(place, '{"a":1}', key('k1'));
      const second = await run(place, '{"a":1}', key('k1'));
      expect([second.status, second.text]).toEqual([first.status, first.text]);
      expect(first.headers['idempotency-replayed']).toBeUndefined();
      expect(second.headers['idempotency-replayed']).toBe('true');
      const other = await run(place, '{"a":2}', key('k1'));
      expect(other).toMatchObject({ status: 422, body: { code: 'IDEMPOTENCY_MISMATCH' } });
    });

    test.each([
      ['the URL', `${place}?dry_run=true`, '{"a":1}'],
      ['the body', '/plugins/echo/enable', '{"dry_run":true}'],
    ])('is not used up by a dry run that is asked for in %s', async (where, path, body) => {
      const name = `dry ${where}`.replaceAll(' ', '-');
      const dry = await run(path, body, key(name));
      expect(dry).toMatchObject({ status: 200, body: { dry_run: true } });
      const [real = ''] = path.split('?');
      const first = await run(real, '{}', key(name));
      expect(first.status).toBeLessThan(300);
      expect(first.headers['idempotency-replayed']).toBeUndefined();
      const again = await run(real, '{}', key(name));
      expect(again.headers['idempotency-replayed']).toBe('true');
      // A repeated dry run evaluates the current state.
      expect((await run(path, body, key(name))).body).toMatchObject({ dry_run: true });
    });

    test('makes a hundred at once one job', async () => {
      const replies = await Promise.all(
        Array.from({ length: 100 }, () => run(place, '{"a":1}', key('k2'))),
      );
      expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([202]));
      expect(new Set(replies.map(({ body }) => body['job_id'])).size).toBe(1);
    });

    test('from a request whose response was lost returns the same job', async () => {
      const before = await run(place, '{"a":3}', key('k3'));
      // Simulates a process that died between the commit of the job and that of its response.
      const raw = openRaw(api.server.instance.config.state);
      await raw.run('update idempotency_keys set status = null, answer = null where key = ?', [
        'k3',
      ]);
      await raw.close();
      const after = await run(place, '{"a":3}', key('k3'));
      expect(after.headers['idempotency-replayed']).toBeUndefined();
      expect(after.text).toBe(before.text);
      const { body } = await api.ask('/jobs?limit=200');
      const ids = (body['jobs'] as { job_id: string }[]).map(({ job_id }) => job_id);
      expect(ids.filter((id) => id === before.body['job_id'])).toHaveLength(1);
      expect((await run(place, '{"a":4}', key('k3'))).status).toBe(422);
    });

    test('is free again when nothing was done', async () => {
      expect((await run('/plugin/nobody/poll', '{}', key('k4'))).status).toBe(404);
      expect((await run('/plugin/nobody/poll', '{"b":1}', key('k4'))).status).toBe(404);
    });

    test.each(['', 'a'.repeat(256), 'with blank'])('cannot be %j', async (name) => {
      expect((await run(place, '{}', key(name))).status).toBe(400);
    });
  });
});
