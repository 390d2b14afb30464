import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Json, JsonObject } from '../../src/base/json.ts';
import { makeDirectory } from '../support/directory.ts';
import { payloadOf, runError, runOk, type OkResponse } from '../support/plugin-process.ts';

let directory: string;
let path: string;

beforeEach(async () => {
  directory = await makeDirectory();
  path = join(directory, 'data.db');
  const database = new DatabaseSync(path);
  database.exec(`create table person (id integer primary key, name text, photo blob);
    insert into person values (1, 'Ada', x'00ff'), (2, 'Bob', null), (9007199254740993, 'Cy', null)`);
  database.close();
});

describe('sqlite-query query', () => {
  test('emits rows as objects', async () => {
    const { events } = await query('select id, name from person where id < ?', [3]);
    expect(events).toMatchObject([
      {
        type: 'sqlite-query.rows',
        payload: {
          columns: ['id', 'name'],
          rows: [
            { id: 1, name: 'Ada' },
            { id: 2, name: 'Bob' },
          ],
          row_count: 2,
          truncated: false,
        },
      },
    ]);
  });

  test('keeps what JSON cannot hold', async () => {
    const sql = `select photo, 9007199254740993 as big, 9e999 as inf, 'a' || char(0) as nul,
      cast(x'61ff' as text) as bad, 1 as twin, 2 as twin from person where id = 1`;
    const { events } = await query(sql);
    expect(events[0]?.payload).toMatchObject({
      rows: [
        {
          photo: { base64: 'AP8=' },
          big: '9007199254740993',
          inf: 'Infinity',
          nul: { base64: 'YQA=' },
          bad: 'a\uFFFD',
          twin: 1,
          twin_2: 2,
        },
      ],
    });
  });

  test('binds values and never pastes them', async () => {
    const name = "x' or 1=1; drop table person; --";
    expect(await rowsOf('select count(*) as n from person where name = :name', { name })).toEqual([
      { n: 0 },
    ]);
    expect(await rowsOf('select ? as v', [name])).toEqual([{ v: name }]);
    expect(await rowsOf('select count(*) as n from person')).toEqual([{ n: 3 }]);
  });

  test.each([
    'delete from person',
    'drop table person',
    'pragma writable_schema = 1',
    "attach 'other.db' as other",
    'vacuum',
    'explain select 1',
    '/* select */ update person set name = 1',
    '',
    '-- select 1',
    ';select 1',
    '/* unclosed',
  ])('refuses %j by its first word', async (sql) => {
    const { error, retry } = await runError('sqlite-query', request('query', { sql }));
    expect(error).toContain('payload.sql must be');
    expect(retry).toBe(false);
  });

  test.each([
    ['select 1; delete from person', 'one statement'],
    ['with x as (select 1) delete from person', 'does more than this command allows'],
    ["select load_extension('evil.so')", 'does more than this command allows'],
    ["select writefile('pwned', 'x')", 'no such function'],
    ['select * from pragma_database_list', 'does more than this command allows'],
    ['select randomblob(1000000000)', /too big|MemoryError/],
    ['select * from nowhere', 'no such table'],
    ['select :missing', 'SQLite'],
  ])('refuses %j', async (sql, reason) => {
    const { error, retry } = await runError('sqlite-query', request('query', { sql }));
    expect(error).toMatch(reason);
    expect(retry).toBe(false);
    expect(await rowsOf('select count(*) as n from person')).toEqual([{ n: 3 }]);
  });

  test('reads through JSON and full-text tables and the description of the schema', async () => {
    const database = new DatabaseSync(path);
    database.exec(
      "create virtual table note using fts5(body); insert into note values ('hello world')",
    );
    database.close();
    expect(await rowsOf("select value from json_each('[1,2]')")).toEqual([
      { value: 1 },
      { value: 2 },
    ]);
    expect(await rowsOf("select body from note where note match 'hello'")).toEqual([
      { body: 'hello world' },
    ]);
    expect(await rowsOf("select name from pragma_table_info('person') limit 1")).toEqual([
      { name: 'id' },
    ]);
  });

  test('stops at the row limit, at the size of an event, and at the time limit', async () => {
    const endless = 'with recursive c(x) as (select 1 union all select x + 1 from c)';
    const rows = await query(`${endless} select x from c`, [], { max_rows: 5 });
    expect(rows.events[0]?.payload).toMatchObject({ row_count: 5, truncated: true });
    expect(rows.result).toBe('rows: 5, and there are more');

    const wide = await query(`${endless} select hex(zeroblob(50000)) as wide from c`);
    expect(wide.events[0]?.payload).toMatchObject({ row_count: 6, truncated: true });

    const slow = request('query', { sql: `${endless} select max(x) from c` }, { timeout_ms: 200 });
    const { error, retry } = await runError('sqlite-query', slow);
    expect(error).toContain('config.timeout_ms');
    expect(retry).toBe(true);
  });

  test('runs only the listed statements when some are listed', async () => {
    const config = { queries: { byName: 'select id from person where name = :name' } };
    const named = request('query', { query: 'byName', params: { name: 'Ada' } }, config);
    expect((await runOk('sqlite-query', named)).events[0]?.payload).toMatchObject({
      rows: [{ id: 1 }],
    });
    const free = request('query', { sql: 'select * from person' }, config);
    expect((await runError('sqlite-query', free)).error).toContain('payload.query');
    const unknown = request('query', { query: '__class__' }, config);
    expect((await runError('sqlite-query', unknown)).error).toContain(
      'payload.query must be one of byName',
    );
  });

  test.each<Json>([3, 'x', [[1]], [{ a: 1 }], { a: [1] }, [2 ** 63]])(
    'refuses params %j',
    async (params) => {
      const { retry } = await runError(
        'sqlite-query',
        request('query', { sql: 'select ?', params }),
      );
      expect(retry).toBe(false);
    },
  );

  test('makes no database of its own and says what is not one', async () => {
    const missing = join(directory, 'missing.db');
    const absent = await runError(
      'sqlite-query',
      request('query', { sql: 'select 1' }, { path: missing }),
    );
    expect(absent.error).toContain(missing);
    expect(existsSync(missing)).toBe(false);
    const text = join(directory, 'text?mode=rwc&x=#');
    await writeFile(text, 'this is no database, but it is long enough to be looked at'.repeat(20));
    const wrong = request('query', { sql: 'select * from sqlite_master' }, { path: text });
    expect((await runError('sqlite-query', wrong)).error).toContain('not a database');
  });
});

describe('sqlite-query execute', () => {
  const write = { allow_write: true };

  test('needs the permission of the operator', async () => {
    const { code, error } = await runError(
      'sqlite-query',
      request('execute', { sql: 'delete from person' }),
    );
    expect(error).toBe('config.allow_write must be true for the command execute');
    expect(code).toBe(78);
  });

  test('changes rows and says how many', async () => {
    const sql = 'update person set name = :name where id < 3';
    const { events } = await runOk(
      'sqlite-query',
      request('execute', { sql, params: { name: 'Eve' } }, write),
    );
    expect(events).toMatchObject([
      { type: 'sqlite-query.executed', payload: { rows_affected: 2 } },
    ]);
    expect(await rowsOf("select count(*) as n from person where name = 'Eve'")).toEqual([{ n: 2 }]);
  });

  test('binds the idempotency key by name, so that a repeated attempt can be recognized', async () => {
    const sql =
      'insert or ignore into person (id, name) values (50, :idempotency_key) returning name';
    const first = await runOk('sqlite-query', request('execute', { sql }, write));
    expect(first.events[0]?.payload).toMatchObject({
      rows_affected: 1,
      rows: [{ name: 'root/step/0' }],
    });
    const second = await runOk('sqlite-query', request('execute', { sql }, write));
    expect(second.events[0]?.payload).toMatchObject({ rows_affected: 0 });
  });

  test.each([
    'drop table person',
    'create table x (y)',
    'pragma user_version = 3',
    "insert into person (name) values ('x'); drop table person",
    'update sqlite_master set sql = 1',
    "with x as (select 1) insert into person (name) select load_extension('x')",
    'insert into person (id) values (1)',
  ])('refuses %j and leaves everything as it was', async (sql) => {
    const { retry } = await runError('sqlite-query', request('execute', { sql }, write));
    expect(retry).toBe(false);
    expect(await rowsOf('select count(*) as n from person')).toEqual([{ n: 3 }]);
  });

  test('is retried when another connection holds the database', async () => {
    const other = new DatabaseSync(path);
    other.exec('begin exclusive');
    const sql = 'delete from person';
    const { error, retry } = await runError(
      'sqlite-query',
      request('execute', { sql }, { ...write, timeout_ms: 100 }),
    );
    other.close();
    expect(error).toContain('locked');
    expect(retry).toBe(true);
  });
});

function request(command: string, payload: JsonObject, config: JsonObject = {}) {
  return { command, config: { path, ...config }, payload };
}

function query(sql: string, params: Json = [], config: JsonObject = {}): Promise<OkResponse> {
  return runOk('sqlite-query', request('query', { sql, params }, config));
}

async function rowsOf(sql: string, params: Json = []): Promise<Json | undefined> {
  return payloadOf(await query(sql, params))['rows'];
}
