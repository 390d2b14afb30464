/** Damage that a check at the start doesn't see: an index that differs from its table. */
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { locateTenantLedger } from '../../src/ledger/tenant-location.ts';
import { eventually, makePlace, type TestInstance } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { makeTenant } from '../support/tenant-ledgers.ts';

test('an index that differs from its table opens an incident in the background', async () => {
  const place = await makePlace({ plugins: { worker: { program: succeeds } } });
  const { state } = place.config;
  if (state.kind !== 'sqlite') throw new Error('this is about a file');
  const before = await place.start();
  const job = await before.run('worker');
  await before.close();
  damageIndex(state.path, job.id);
  const { engine, ledger } = await place.start();
  engine.lookForIncidents();
  const incident = await eventually('the incident is open', async () => {
    engine.lookForIncidents();
    const [found] = await ledger.incidents.list({ kind: 'ledger_damaged', isOpen: true, limit: 1 });
    return found;
  });
  expect(incident.detail).toContain('job_log');
  expect(incident.detail).toContain('ductile system restore');
});

test("an index of a tenant's ledger that differs from its table opens an incident there", async () => {
  const place = await makePlace({
    plugins: { worker: { program: succeeds, settings: { shared: true } } },
    tenants: { trust: 'shared' },
  });
  const before = await place.start();
  const slug = await makeTenant(before.ledger, place.config);
  const own = locateTenantLedger(place.config.state, slug);
  if (own.kind !== 'sqlite') throw new Error('this is about a file');
  const first = await visit(before, slug);
  const { jobId } = await first.engine.submit({
    plugin: 'worker',
    command: 'poll',
    payload: {},
    submittedBy: 'api',
    actor: 'test',
  });
  await first.engine.waitFor(jobId, 60_000);
  first.end();
  await before.close();
  damageIndex(own.path, jobId);
  const instance = await place.start();
  const second = await visit(instance, slug);
  const { ledger } = second.engine;
  const incident = await eventually('the incident is open', async () => {
    const kind = 'ledger_damaged';
    const [found] = await ledger.incidents.list({ kind, isOpen: true, limit: 1 });
    return found;
  });
  expect(incident.detail).toContain('job_log');
  expect(await instance.ledger.incidents.list({ kind: 'ledger_damaged', limit: 1 })).toEqual([]);
  second.end();
});

function visit({ engine }: TestInstance, slug: string) {
  if (engine.tenants === undefined) throw new Error('the root engine has no tenants');
  return engine.tenants.visit(slug);
}

/** Hides an index of job_log while one of its values changes, so that the index keeps the old one. */
function damageIndex(path: string, jobId: string): void {
  const open = (work: (db: DatabaseSync) => void): void => {
    const db = new DatabaseSync(path, { defensive: false });
    db.exec('pragma writable_schema = on');
    work(db);
    db.close();
  };
  let hidden: Record<string, string | number> = {};
  open((db) => {
    const select = `select type, name, tbl_name, rootpage, sql from sqlite_schema
      where name = 'job_log_completed'`;
    hidden = { ...(db.prepare(select).get() as Record<string, string | number>) };
    db.prepare('delete from sqlite_schema where name = ?').run(String(hidden['name']));
  });
  open((db) => {
    const later = `update job_log set completed_at = '2999-01-01T00:00:00.000Z' where job_id = ?`;
    db.prepare(later).run(jobId);
  });
  open((db) => {
    const { type = '', name = '', tbl_name: table = '', rootpage = 0, sql = '' } = hidden;
    db.prepare('insert into sqlite_schema values (?, ?, ?, ?, ?)').run(
      type,
      name,
      table,
      rootpage,
      sql,
    );
  });
}
