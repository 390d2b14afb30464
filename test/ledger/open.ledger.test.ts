import { noRules } from '../../src/ledger/rules.ts';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { tables } from '../../src/ledger/dialect.ts';
import { readLockHolder, claimInstanceLock } from '../../src/ledger/sqlite/instance-lock.ts';
import { migrations, schemaVersion } from '../../src/ledger/migrate.ts';
import { openLedger, openSoundLedger } from '../../src/ledger/open.ts';
import {
  databases,
  makeClient,
  makePlace,
  makePostgresPlace,
  openBench,
  range,
} from '../support/ledger/bench.ts';
import { makeDirectory } from '../support/directory.ts';
import { draft } from '../support/ledger/drafts.ts';

describe.each(databases)('opening a ledger on %s', (kind) => {
  test('creates every table and records every migration', async () => {
    const { ledger, dump, sql } = await openBench(kind);
    expect(ledger.kind).toBe(kind);
    expect(Object.keys(await dump())).toEqual([...tables]);
    const applied = await sql('select version, name from schema_migrations order by version');
    expect(applied.map((row) => ({ ...row }))).toEqual(
      migrations.map(({ version, name }) => ({ version, name })),
    );
  });

  test('again changes nothing, and keeps the epoch', async () => {
    const { ledger, open, dump } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [draft()] });
    const before = await dump();
    const again = await open();
    expect(await dump()).toEqual(before);
    expect(await again.meta.read('epoch')).toMatch(/^[0-9a-f]{32}$/);
    expect(await again.meta.read('epoch')).toBe(await ledger.meta.read('epoch'));
  });

  test('with a newer schema is refused, and nothing is touched', async () => {
    const { place, dump, sql } = await openBench(kind);
    await sql(`insert into schema_migrations (version, name, applied_at) values (?, 'later', '')`, [
      schemaVersion + 1,
    ]);
    const before = await dump();
    await expect(openLedger(place, noRules)).rejects.toMatchObject({ code: 'LEDGER_NEWER' });
    expect(await dump()).toEqual(before);
    await sql('delete from schema_migrations where version = ?', [schemaVersion + 1]);
  });

  test('by several processes at once creates it once', async () => {
    const place = await makePlace(kind);
    const ledgers = await Promise.all(range(8).map(() => openLedger(place, noRules)));
    onTestFinished(async () => {
      await Promise.all(ledgers.map((ledger) => ledger.close()));
    });
    const epochs = await Promise.all(ledgers.map((ledger) => ledger.meta.read('epoch')));
    expect(new Set(epochs).size).toBe(1);
    await Promise.all(ledgers.map((ledger) => ledger.jobs.enqueue({ jobs: [draft()] })));
    expect((await ledgers[0]?.jobs.countQueue())?.ready).toBe(8);
  });

  test('meta can be set, changed and read', async () => {
    const { ledger } = await openBench(kind);
    expect(await ledger.meta.read('paused')).toBeUndefined();
    await ledger.meta.write('paused', '1');
    await ledger.meta.write('paused', '0');
    expect(await ledger.meta.read('paused')).toBe('0');
  });

  test('closed, it rejects every call, and can be closed twice', async () => {
    const ledger = await openLedger(await makePlace(kind), noRules);
    const last = ledger.jobs.enqueue({ jobs: [draft()] });
    const closed = [ledger.close(), ledger.close()];
    await expect(last).resolves.toHaveLength(1);
    await Promise.all(closed);
    const unavailable = { code: 'LEDGER_UNAVAILABLE' };
    await expect(ledger.jobs.enqueue({ jobs: [draft()] })).rejects.toMatchObject(unavailable);
    await expect(ledger.jobs.countQueue()).rejects.toMatchObject(unavailable);
  });
});

describe('a PostgreSQL user of few rights', () => {
  test('opens a ledger in a schema that was made for it', async () => {
    const anywhere = await makePostgresPlace();
    const place = { ...anywhere, schema: 'its_own' };
    const role = `role_${randomBytes(6).toString('hex')}`;
    const admin = makeClient(place.url);
    await admin.connect();
    onTestFinished(async () => {
      await admin.query(`drop schema "${place.schema}" cascade`);
      await admin.query(`drop role ${role}`);
      await admin.end();
    });
    await admin.query(`create role ${role} login password 'p'`);
    await admin.query(`create schema "${place.schema}" authorization ${role}`);
    const url = new URL(place.url);
    url.username = role;
    url.password = 'p';
    const ledger = await openLedger({ ...place, url: url.href }, noRules);
    await ledger.jobs.enqueue({ jobs: [draft()] });
    await ledger.close();
    const elsewhere = { ...place, url: url.href, schema: 'another' };
    await expect(openLedger(elsewhere, noRules)).rejects.toMatchObject({
      code: 'LEDGER_UNAVAILABLE',
      message: expect.stringContaining('permission denied'),
    });
  });

  test('with the wrong password is reported', async () => {
    const place = await makePostgresPlace();
    const url = new URL(place.url);
    url.password = 'wrong';
    await expect(openLedger({ ...place, url: url.href }, noRules)).rejects.toMatchObject({
      code: 'LEDGER_UNAVAILABLE',
      message: expect.stringContaining('password'),
    });
  });
});

test('a file with obvious damage is refused for every use', async () => {
  const place = await makePlace('sqlite');
  if (place.kind !== 'sqlite') throw new Error('it is no file');
  const ledger = await openLedger(place, noRules);
  await ledger.jobs.enqueue({ jobs: range(200).map(() => draft()) });
  await ledger.close();
  const sound = await openSoundLedger(place, noRules);
  await sound.close();
  const bytes = readFileSync(place.path);
  // A page of rows that is not read when the ledger is opened.
  bytes.fill(0, bytes.length - 2 * 4096, bytes.length - 4096);
  writeFileSync(place.path, bytes);
  await (await openLedger(place, noRules)).close();
  await expect(openSoundLedger(place, noRules)).rejects.toMatchObject({
    code: 'LEDGER_CORRUPT',
    place: place.path,
  });
});

test('a lock names the process, the configuration and the start of its holder', async () => {
  const directory = await makeDirectory();
  const lock = claimInstanceLock(directory, '/etc/a b/config.yaml');
  expect(() => claimInstanceLock(directory)).toThrow(
    expect.objectContaining({
      code: 'INSTANCE_LOCKED',
      message: expect.stringMatching(
        new RegExp(`^process ${process.pid} .*, since 20.*Z, with .* /etc/a b/config.yaml$`),
      ) as string,
      hint: `Stop it with \`kill ${process.pid}\`, or use it with \`--config /etc/a b/config.yaml\`.`,
      details: {
        pid: process.pid,
        config: '/etc/a b/config.yaml',
        started_at: expect.stringMatching(/^20.*Z$/) as string,
      },
    }),
  );
  lock.release();
  expect(readLockHolder(directory)).toBeUndefined();
  // An older program writes its process id alone.
  writeFileSync(join(directory, 'ductile.lock'), '77\n');
  expect(readLockHolder(directory)).toEqual({ pid: 77, configFile: null, startedAt: null });
});

test('a lock whose file holds garbage is acquired, and one that is a directory is reported', async () => {
  const directory = await makeDirectory();
  writeFileSync(join(directory, '.ductile.lock'), 'garbage '.repeat(400));
  const lock = claimInstanceLock(directory);
  expect(() => claimInstanceLock(directory)).toThrow(/holds the lock/);
  lock.release();
  claimInstanceLock(directory).release();
  const path = join(await makeDirectory(), '.ductile.lock');
  mkdirSync(path);
  expect(() => claimInstanceLock(dirname(path))).toThrow(
    expect.objectContaining({ code: 'LEDGER_UNAVAILABLE', place: path }),
  );
});
