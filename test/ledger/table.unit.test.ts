import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { showRow } from '../../src/base/show-row.ts';
import { compileRun, compileSet, toRuns } from '../../src/ledger/batch-statement.ts';
import { defineInsert, insertRow } from '../../src/ledger/insert.ts';
import { sqliteDialect } from '../../src/ledger/sqlite/session.ts';
import { columnNamed, columnOf, jsonColumn, table, type RowOf } from '../../src/ledger/table.ts';
import type { Session, Value } from '../../src/ledger/dialect.ts';

const incidents = table('incidents', {
  seq: 'int',
  id: 'text',
  kind: columnOf<'stuck' | 'failing'>('text'),
  openedAt: 'time',
  closedAt: 'time?',
  count: 'int?',
  isLoud: columnNamed('loud', 'flag'),
  names: jsonColumn<string[]>(),
});

type Incident = RowOf<typeof incidents>;

const stored = {
  seq: 1,
  id: 'a',
  kind: 'stuck',
  opened_at: '2030-01-01T00:00:00.000Z',
  closed_at: null,
  count: null,
  loud: 1,
  names: '["x"]',
  other: 'not declared',
};

describe('a table', () => {
  test('decodes a row into its declared properties', () => {
    const row: Incident = incidents.decode(stored);
    expect(row).toEqual({
      seq: 1,
      id: 'a',
      kind: 'stuck',
      openedAt: '2030-01-01T00:00:00.000Z',
      closedAt: null,
      count: null,
      isLoud: true,
      names: ['x'],
    });
  });

  test('decodes numbers that the driver returns as text', () => {
    expect(incidents.decode({ ...stored, seq: '12', count: '0', loud: 0 })).toMatchObject({
      seq: 12,
      count: 0,
      isLoud: false,
    });
  });

  test('names the column whose value is missing or of the wrong type', () => {
    expect(() => incidents.decode({ ...stored, opened_at: null })).toThrow('opened_at is not text');
    expect(() => incidents.decode({ ...stored, closed_at: 5 })).toThrow('closed_at is not text');
    expect(() => incidents.decode({ ...stored, seq: 'x' })).toThrow('seq is not a number');
    expect(() => incidents.decode({ seq: 1 })).toThrow('id is not text');
  });

  test('does not share a decoded row with the next one', () => {
    const first = incidents.decode({ ...stored, closed_at: 'then' });
    expect(incidents.decode(stored).closedAt).toBeNull();
    expect(first.closedAt).toBe('then');
  });

  test('lists its columns after its name or an alias', () => {
    const some = incidents.pick('id', 'closedAt', 'isLoud');
    expect(some.columns()).toBe('incidents.id, incidents.closed_at, incidents.loud');
    expect(some.columns('i')).toBe('i.id, i.closed_at, i.loud');
    expect(some.decode(stored)).toEqual({ id: 'a', closedAt: null, isLoud: true });
    expect(some.except('closedAt')).toEqual(['id', 'isLoud']);
  });
});

describe('a response', () => {
  const shape = z.object({
    incident_id: z.string(),
    opened_at: z.string(),
    closed_at: z.string().nullable(),
    names: z.unknown(),
  });

  test('has the fields of its shape in their order, from the row or computed', () => {
    const row = incidents.decode(stored);
    const shown = showRow(shape, row, { names: row.names.join(' '), incident_id: row.id });
    expect(Object.entries(shown)).toEqual([
      ['incident_id', 'a'],
      ['opened_at', '2030-01-01T00:00:00.000Z'],
      ['closed_at', null],
      ['names', 'x'],
    ]);
  });
});

describe('an insert', () => {
  const insert = defineInsert(incidents, {
    properties: ['id', 'isLoud', 'closedAt'],
    parameters: { delay: 'int' },
    sql: (r, d) => ({ openedAt: d.nowPlus(r('delay')), count: '0' }),
    rest: 'on conflict do nothing',
  });
  const rows = [
    { id: 'a', isLoud: true, delay: 5, more: {} },
    { id: 'b', isLoud: false, closedAt: 'then', delay: 6 },
  ];

  test('binds the properties of each row', () => {
    const [first, second] = toRuns(insert, rows);
    if (first === undefined || second === undefined) throw new Error('no runs');
    const { text, bind } = compileRun(sqliteDialect, insert, first);
    expect(text).toContain('insert into incidents (id, loud, closed_at, opened_at, count)');
    expect(text).toContain('values (?2, ?3, ?4, strftime(');
    expect(bind(first, [])).toEqual([5, 'a', 1, null]);
    expect(bind(second, [])).toEqual([6, 'b', 0, 'then']);
  });

  test('binds an array for each column', () => {
    const { text, bind } = compileSet(sqliteDialect, insert);
    expect(text).toContain('as r(id, loud, closed_at, delay)');
    expect(bind(rows, [])).toEqual(['["a","b"]', '[1,0]', '[null,"then"]', '[5,6]']);
  });

  test('writes expressions of one row into the statement, with their values', async () => {
    const statements: [string, readonly Value[] | undefined][] = [];
    const session: Session = {
      dialect: sqliteDialect,
      run: (sql, values) => {
        statements.push([sql.replaceAll(/\s+/g, ' ').trim(), values]);
        return Promise.resolve([]);
      },
      each: () => Promise.resolve([]),
    };
    await insertRow(
      session,
      incidents,
      {
        id: 'a',
        openedAt: { sql: 'now + ?', values: [3] },
        closedAt: undefined,
        isLoud: true,
        names: ['x'],
      },
      'returning id',
    );
    expect(statements).toEqual([
      [
        'insert into incidents (id, opened_at, closed_at, loud, names) values (?, now + ?, ?, ?, ?) returning id',
        ['a', 3, null, 1, '["x"]'],
      ],
    ]);
  });
});
