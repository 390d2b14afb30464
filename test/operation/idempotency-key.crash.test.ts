/** Requests with an idempotency key, whose server dies between the commit and the response. */
import { request } from 'node:http';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { databases } from '../support/instance.ts';
import { makeCrashTest } from '../support/crash/crash-test.ts';

interface Reply {
  readonly status: number | undefined;
  readonly body: JsonObject;
  readonly replayed: unknown;
}

function post(socketPath: string, path: string, key: string, body: object): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const headers = { 'idempotency-key': key, 'content-type': 'application/json' };
    const options = { socketPath, method: 'POST', path, headers, agent: false };
    const exchange = request(options, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('error', reject).on('end', () => {
        const replayed = response.headers['idempotency-replayed'];
        resolve({
          status: response.statusCode,
          body: JSON.parse(text) as JsonObject,
          replayed,
        });
      });
    });
    exchange.on('error', reject).end(JSON.stringify(body));
  });
}

describe.each(databases)('on %s', (database) => {
  test('asking again after the crash finds the job of the first time', async () => {
    const crashTest = await makeCrashTest(database);
    const first = await crashTest.start('enqueue.after-commit:kill');
    const { control } = await first.ready;
    const wish = { payload: { ref: 1 } };
    await expect(post(control, '/plugin/recorder', 'k', wish)).rejects.toThrow();
    expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' });
    const accepted = await crashTest.withLedger((ledger) => ledger.jobs.list({ limit: 9 }));
    expect(accepted).toHaveLength(1);

    const second = await crashTest.start();
    const at = (await second.ready).control;
    const again = await post(at, '/plugin/recorder', 'k', wish);
    expect(again).toMatchObject({ status: 202, body: { job_id: accepted[0]?.id } });
    const third = await post(at, '/plugin/recorder', 'k', wish);
    expect(third).toMatchObject({ status: 202, body: again.body, replayed: 'true' });
    const other = await post(at, '/plugin/recorder', 'k', { payload: { ref: 2 } });
    expect(other.status).toBe(422);
    await crashTest.drain();
    const lines = (await crashTest.record()).filter(({ phase }) => phase === 'end');
    expect(lines.filter(({ job_id: id }) => id === accepted[0]?.id)).toHaveLength(1);
    const roots = await crashTest.withLedger((ledger) =>
      ledger.jobs.list({ plugin: 'recorder', limit: 9 }),
    );
    expect(roots).toHaveLength(1);
  });
});
