/** The service dies around the commit of a delivery: a sender never gets a response without the job. */
import { createHmac } from 'node:crypto';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { databases } from '../support/instance.ts';
import type { Server } from '../support/crash/server.ts';
import { makeCrashTest } from '../support/crash/crash-test.ts';

const body = '{"payload":{"ref":1}}';

interface Reply {
  readonly status: number | undefined;
  readonly body: Readonly<Record<string, unknown>>;
}

function post(
  where: { readonly socketPath: string } | { readonly host: string; readonly port: number },
  path: string,
  sent: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const all = { 'content-type': 'application/json', ...headers };
    const options = { ...where, method: 'POST', path, headers: all, agent: false };
    const exchange = request(options, (response) => {
      text(response)
        .then((said) =>
          resolve({ status: response.statusCode, body: JSON.parse(said) as Reply['body'] }),
        )
        .catch(reject);
    });
    exchange.on('error', reject).end(sent);
  });
}

async function deliver(server: Server, secret: string): Promise<Reply> {
  await server.ready;
  const logLine = server.records.find(({ message }) => message === 'ductile is ready');
  const port = Number(String(logLine?.['webhooks']).split(':').at(-1));
  const mac = createHmac('sha256', secret).update(body).digest('hex');
  return await post({ host: '127.0.0.1', port }, '/hooks/gh', body, {
    'x-hub-signature-256': `sha256=${mac}`,
    'x-github-delivery': 'd-1',
  });
}

describe.each(databases)('on %s', (database) => {
  test.each([
    ['before', 0, 202],
    ['after', 1, 200],
  ] as const)(
    'a crash %s the commit leaves %i jobs, and sending it again is answered %i',
    async (moment, left, status) => {
      const crashTest = await makeCrashTest(database, {}, { webhooks: { listen: '127.0.0.1:0' } });
      const first = await crashTest.start(`enqueue.${moment}-commit:kill`);
      const { control } = await first.ready;
      const entry = { id: 'gh', title: 'T', plugin: 'recorder', command: 'poll' };
      const sent = JSON.stringify({ ...entry, auth_mode: 'github' });
      const made = await post({ socketPath: control }, '/webhooks', sent);
      expect(made.status).toBe(201);
      const secret = String(made.body['secret']);
      await expect(deliver(first, secret)).rejects.toThrow();
      expect(await first.exited).toEqual({ code: null, signal: 'SIGKILL' });
      const found = await crashTest.withLedger(async (ledger) => ({
        jobs: await ledger.jobs.list({ plugin: 'recorder', limit: 9 }),
        signals: await ledger.signals.list({ source: 'webhook:gh', limit: 9 }),
        deliveries: await ledger.deliveries.list({ webhookId: 'gh', limit: 9 }),
        triggered: (await ledger.webhooks.find('gh'))?.triggerCount,
      }));
      expect(found).toMatchObject({
        jobs: { length: left },
        signals: { length: left },
        deliveries: { length: left },
        triggered: left,
      });

      const second = await crashTest.start();
      const repeated = await deliver(second, secret);
      const again = await deliver(second, secret);
      expect([repeated.status, again.status]).toEqual([status, 200]);
      await crashTest.drain();
      const ended = await deliver(second, secret);
      const jobs = await crashTest.withLedger((ledger) =>
        ledger.jobs.list({ plugin: 'recorder', limit: 9 }),
      );
      // The sender learns the one job, even if the first response was lost.
      const job = { job_id: jobs[0]?.id };
      expect([repeated.body, again.body, ended.body, jobs]).toMatchObject([
        job,
        { ...job, duplicate: true },
        { ...job, duplicate: true, status: 'succeeded' },
        { length: 1 },
      ]);
    },
  );
});
