import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import { overlayLedger, type Ledger } from '../../src/ledger/ledger.ts';
import { pause } from '../support/direct.ts';
import { databases, makePlace } from '../support/instance.ts';
import { notesJob, succeeds } from '../support/plugin-program.ts';

const plugins = { worker: { program: succeeds } };

describe.each(databases)('a submission on %s', (database) => {
  test('in one moment is accepted together, each for itself', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: notesJob } } });
    const { submit, ended } = await place.start();
    const ids = await Promise.all(Array.from({ length: 50 }, () => submit('worker')));
    expect(new Set(ids).size).toBe(50);
    for (const id of ids) expect((await ended(id)).status).toBe('succeeded');
    expect((await place.notes()).sort()).toEqual([...ids].sort());
  });

  test("that can't be stored is refused, and its neighbours are not", async () => {
    const place = await makePlace({ database, plugins });
    const { submit, ended } = await place.start();
    const results = await Promise.allSettled([
      submit('worker', { fine: true }),
      submit('worker', { text: 'a\0b' }),
      submit('worker', { text: 'x'.repeat(limits.payloadBytesMax) }),
      submit('worker', {}, { dedupeKey: 'a\0b' }),
      submit('worker', {}, { dedupeKey: 'k'.repeat(limits.dedupeKeyBytesMax) }),
      submit('worker', {}, { context: { deep: nest(limits.jsonDepthMax + 1) } }),
      submit('worker', { fine: true }),
    ]);
    const codes = results.map((result) =>
      result.status === 'fulfilled' ? 'accepted' : (result.reason as { code: string }).code,
    );
    expect(codes).toEqual([
      'accepted',
      'INPUT_INVALID',
      'PAYLOAD_TOO_LARGE',
      'INPUT_INVALID',
      'PAYLOAD_TOO_LARGE',
      'INPUT_INVALID',
      'accepted',
    ]);
    for (const result of results) {
      if (result.status !== 'fulfilled') continue;
      expect((await ended(result.value)).status).toBe('succeeded');
    }
  });
});

test("a submission that the ledger refuses doesn't affect the others", async () => {
  const refuses = (real: Ledger): Ledger =>
    overlayLedger(real, {
      jobs: {
        enqueue: (batch) =>
          batch.jobs.some(({ payload }) => payload.includes('poison'))
            ? Promise.reject(new Error('cannot be stored'))
            : real.jobs.enqueue(batch),
      },
    });
  const place = await makePlace({ plugins });
  const { submit, ended } = await place.start({ ledger: refuses });
  const [first, poison, last] = await Promise.allSettled([
    submit('worker', { n: 1 }),
    submit('worker', { text: 'poison' }),
    submit('worker', { n: 2 }),
  ]);
  expect(poison).toMatchObject({ status: 'rejected', reason: { message: 'cannot be stored' } });
  for (const result of [first, last]) {
    const id = result.status === 'fulfilled' ? result.value : '';
    expect((await ended(id)).status).toBe('succeeded');
  }
});

test('a wait for an unknown job is an error', async () => {
  const place = await makePlace({ plugins });
  const { engine } = await place.start();
  await expect(engine.waitFor('nobody', 10)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' });
});

test('a caller that stops waiting gets the job as it is then', async () => {
  const place = await makePlace({ plugins });
  const { engine, submit } = await place.start();
  await pause(engine);
  const id = await submit('worker');
  expect(await engine.waitFor(id, 30)).toMatchObject({ id, status: 'queued' });
});

function nest(depth: number): JsonObject {
  let value: JsonObject = {};
  for (let level = 0; level < depth; level += 1) value = { value };
  return value;
}
