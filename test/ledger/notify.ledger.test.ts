import { noRules } from '../../src/ledger/rules.ts';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { openLedger } from '../../src/ledger/open.ts';
import {
  databases,
  makeClient,
  makePostgresPlace,
  openBench,
  range,
} from '../support/ledger/bench.ts';

const patience = { timeout: 120_000, interval: 20 };

describe.each(databases)('hints on %s', (kind) => {
  test('can be sent and listened for at any time', async () => {
    const { ledger, open } = await openBench(kind);
    ledger.hint();
    ledger.onHint(() => undefined);
    ledger.hint();
    const other = await open();
    other.onHint(() => undefined);
    other.onHint(() => undefined);
    await other.close();
    other.hint();
  });
});

describe('hints between hosts', () => {
  /** Counts the hints that a ledger gets, once it is known to listen. */
  async function listen(ledger: Awaited<ReturnType<typeof openLedger>>) {
    const listener = vi.fn<() => void>();
    ledger.onHint(listener);
    // A new listener gets one hint, because earlier ones may have been lost.
    await vi.waitFor(() => expect(listener).toHaveBeenCalled(), patience);
    listener.mockClear();
    return listener;
  }

  test('reach the other host, and many hints are merged into few', async () => {
    const { ledger, open } = await openBench('postgres');
    const listener = await listen(await open());
    range(100).forEach(() => ledger.hint());
    await vi.waitFor(() => expect(listener).toHaveBeenCalled(), patience);
    expect(listener.mock.calls.length).toBeLessThan(10);
  });

  test('do not reach another ledger', async () => {
    const here = await openBench('postgres');
    const there = await openBench('postgres');
    const heardThere = await listen(there.ledger);
    const heardHere = await listen(await here.open());
    here.ledger.hint();
    await vi.waitFor(() => expect(heardHere).toHaveBeenCalled(), patience);
    expect(heardThere).not.toHaveBeenCalled();
  });

  test('arrive again after the listening connection was lost', async () => {
    const { ledger, open, sql } = await openBench('postgres');
    const listener = await listen(await open());
    const killed = await sql(`select pg_terminate_backend(pid) as done from pg_stat_activity
      where application_name = 'ductile-listen' and datname = current_database()`);
    expect(killed).toHaveLength(1);
    // After it reconnects, it gets one hint, and then hints arrive as before.
    await vi.waitFor(() => expect(listener).toHaveBeenCalled(), patience);
    listener.mockClear();
    ledger.hint();
    await vi.waitFor(() => expect(listener).toHaveBeenCalled(), patience);
  });

  test('work in a schema with the longest possible name', async () => {
    const place = await makePostgresPlace();
    const schema = place.schema.padEnd(63, 'x');
    const ledgers = [
      await openLedger({ ...place, schema }, noRules),
      await openLedger({ ...place, schema }, noRules),
    ];
    onTestFinished(async () => {
      await Promise.all(ledgers.map((ledger) => ledger.close()));
      const admin = makeClient(place.url);
      await admin.connect();
      await admin.query(`drop schema "${schema}" cascade`);
      await admin.end();
    });
    const [one, two] = ledgers;
    if (one === undefined || two === undefined) throw new Error('two were opened');
    const listener = await listen(two);
    one.hint();
    await vi.waitFor(() => expect(listener).toHaveBeenCalled(), patience);
  });
});
