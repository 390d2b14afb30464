/** Writes the same rows by hand, with the same durability and the same number per commit. */
import { noRules } from '../../src/ledger/rules.ts';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import { z } from 'zod';
import { toTimestamp } from '../../src/base/clock.ts';
import { makeId } from '../../src/base/ids.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { DUCTILE_SCHEMA } from '../ductile.ts';
import { payload } from '../settings.ts';
import { placeShape, readConfig } from './ductile.ts';
import { inFlight, measure, timed } from './harness.ts';

const shape = placeShape.extend({ jobs: z.number(), atOnce: z.number() });
const WARM_UP = 1000;

const columns = `id, type, source, data, metadata, hops, correlation_id, visibility, occurred_at,
  inserted_at`;

await measure(shape, async ({ config, jobs, atOnce }) => {
  const { state } = readConfig(config);
  await (await openLedger(state, noRules)).close();
  const insert = state.kind === 'sqlite' ? openFile(state.path, atOnce) : openPool(state.url);
  await insert(WARM_UP);
  return await timed(() => insert(jobs));

  function openPool(url: string): (count: number) => Promise<number> {
    const pool = new pg.Pool({ connectionString: url, max: atOnce });
    const values = Array.from({ length: 10 }, (_, index) => `$${index + 1}`).join(', ');
    const text = `insert into ${DUCTILE_SCHEMA}.signals (${columns}) values (${values})`;
    return (count) =>
      inFlight(atOnce, count, () => pool.query({ name: 'insert', text, values: row() }));
  }
});

function openFile(path: string, atOnce: number): (count: number) => Promise<number> {
  const db = new DatabaseSync(path);
  db.exec('pragma journal_mode = wal; pragma synchronous = full');
  const values = Array.from({ length: 10 }, () => '?').join(', ');
  const insert = db.prepare(`insert into signals (${columns}) values (${values})`);
  return (count) => {
    for (let at = 0; at < count; at += atOnce) {
      db.exec('begin immediate');
      for (let one = 0; one < atOnce; one += 1) insert.run(...row());
      db.exec('commit');
    }
    return Promise.resolve(count);
  };
}

function row(): (string | number)[] {
  const id = makeId();
  const now = toTimestamp(Date.now());
  const data = JSON.stringify(payload.payload);
  const metadata = '{"schema_version":1,"actor":"bench"}';
  return [id, payload.type, 'shop', data, metadata, 1, id, 'internal', now, now];
}
