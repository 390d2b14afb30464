import { describe, expect, test } from 'vitest';
import { fitResult, type FitOptions } from '../../src/cli/print-json.ts';
import { limits } from '../../src/base/limits.ts';
import { REDACTED } from '../../src/base/secrets.ts';
import { operations } from '../../src/operation/all.ts';
import { compactResult, foldResult } from '../../src/operation/result/compact-result.ts';
import { pickFields, readFieldNames } from '../../src/operation/result/pick-fields.ts';
import { describeResult } from '../../src/operation/schema.ts';

function shapeOf(name: string) {
  const operation = operations.find((candidate) => candidate.name === name);
  if (operation === undefined) throw new Error(`there is no operation ${name}`);
  return describeResult(operation);
}

function attempt(number: number, over: Readonly<Record<string, unknown>> = {}) {
  return {
    attempt: number,
    status: 'crashed',
    cause: 'crash',
    exit_code: null,
    last_error: `process ${1000 + number} was killed`,
    completed_at: `2026-01-02T03:04:${String(number % 60).padStart(2, '0')}.000Z`,
    ...over,
  };
}

describe('the shape of a result', () => {
  test('names the rows of a list, and the fields that hold foreign JSON', () => {
    const jobs = shapeOf('job.list');
    expect(jobs.rows).toMatchObject({ field: 'jobs', isList: true });
    expect(jobs.rows?.columns).toEqual(expect.arrayContaining(['job_id', 'status']));
    expect(shapeOf('job.inspect').data).toEqual(
      expect.arrayContaining(['data', 'metadata', 'payload', 'result']),
    );
    expect(shapeOf('system.doctor').rows).toMatchObject({ field: 'findings', isList: false });
  });
});

describe('a compact result', () => {
  test('has no null fields in rows, and all nulls of payloads and of the result itself', () => {
    const output = {
      next_cursor: null,
      signals: [{ signal_id: 's', job_id: null, data: { a: null, list: [{ b: null }] } }],
    };
    expect(compactResult(output, new Set(['data']))).toEqual({
      next_cursor: null,
      signals: [{ signal_id: 's', data: { a: null, list: [{ b: null }] } }],
    });
  });

  test('has no masked headers', () => {
    const pairs = [
      ['accept', '*/*'],
      ['authorization', REDACTED],
    ];
    const output = {
      deliveries: [{ headers: pairs, data: { headers: { accept: '*/*', cookie: REDACTED } } }],
    };
    expect(compactResult(output, new Set(['data']))).toEqual({
      deliveries: [{ headers: [['accept', '*/*']], data: { headers: { accept: '*/*' } } }],
    });
  });
});

describe('folding', () => {
  test('joins equal attempts that follow each other, whatever numbers are in their errors', () => {
    const attempts = [
      attempt(1, { cause: 'exit', exit_code: 1 }),
      ...Array.from({ length: 92 }, (_, index) => attempt(index + 2)),
      attempt(94, { status: 'succeeded', cause: 'ok', last_error: null }),
    ];
    const { value, cuts } = foldResult({ job_id: 'j', attempts }, {});
    expect(value.attempts).toMatchObject([
      { attempt: 1 },
      {
        attempt: 93,
        folded: '92 × crash',
        folded_count: 92,
        folded_from_attempt: 2,
        folded_since: '2026-01-02T03:04:02.000Z',
      },
      { attempt: 94, status: 'succeeded' },
    ]);
    expect(cuts).toEqual([{ path: [1], kind: 'folded', total: 94, shown: 3 }]);
  });
});

describe('picking fields', () => {
  const shape = shapeOf('job.list');
  const output = {
    jobs: [{ job_id: 'a', status: 'dead', plugin: 'p' }],
    total: 1,
    total_is: 'exact',
    next_cursor: null,
  };

  test('in a list picks columns, and keeps counts and the cursor', () => {
    expect(pickFields(output, ['job_id', 'last_error'], shape)).toEqual({
      jobs: [{ job_id: 'a', last_error: null }],
      total: 1,
      total_is: 'exact',
      next_cursor: null,
    });
  });

  test('in any other result picks fields, and fields within them', () => {
    const job = { status: 'dead', attempts: [attempt(1)], signals: [] };
    const names = ['status', 'attempts.cause', 'attempts.attempt'];
    expect(pickFields(job, names, shapeOf('job.inspect'))).toEqual({
      status: 'dead',
      attempts: [{ cause: 'crash', attempt: 1 }],
    });
  });

  test('refuses a name that the result does not have', () => {
    expect(() => pickFields(output, ['stauts'], shape)).toThrow('there is no field stauts');
    for (const given of ['', 'a,,b', 7, '../x']) {
      expect(() => readFieldNames(given)).toThrow('fields must be names');
    }
  });
});

describe('a result that is printed', () => {
  const more = ['ductile job show j --json --full'];
  const options: FitOptions = {
    shape: shapeOf('job.inspect'),
    isFull: false,
    keepRows: false,
    more,
  };
  const bytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

  test('is whole when it is small', () => {
    const output = { job_id: 'j', attempts: [attempt(1), attempt(2)] };
    const { value, wholeBytes } = fitResult(output, options);
    expect(wholeBytes).toBeUndefined();
    expect(value).toMatchObject({ attempts: [{ attempt: 1 }, { attempt: 2 }] });
    expect(value).not.toHaveProperty('cut');
  });

  test('is folded before anything is cut, and says so', () => {
    const output = { job_id: 'j', attempts: Array.from({ length: 100 }, (_, at) => attempt(at)) };
    const { value } = fitResult(output, options);
    expect(value).toMatchObject({
      job_id: 'j',
      attempts: [{ folded: '100 × crash' }],
      cut: {
        whole_bytes: bytes(compactResult(output, new Set())),
        parts: [{ at: '/attempts', kind: 'folded', total: 100, shown: 1 }],
        commands: more,
      },
    });
  });

  test('is never larger than the limit, and says what is left', () => {
    const signals = Array.from({ length: 300 }, (_, at) => ({
      signal_id: String(at),
      data: { text: 'ä'.repeat(3000) },
    }));
    const { value, wholeBytes } = fitResult({ job_id: 'j', signals }, options);
    expect(bytes(value)).toBeLessThanOrEqual(limits.resultBytes);
    expect(wholeBytes).toBeGreaterThan(1_000_000);
    expect(value['cut']).toMatchObject({
      parts: [
        { at: '/signals', kind: 'list', total: 300, shown: expect.any(Number) },
        { at: '/signals/*/data/text', kind: 'text', longest: 3000, places: expect.any(Number) },
      ],
      commands: more,
    });
  });

  test('keeps all rows if the caller set their number, and everything with --full', () => {
    const jobs = Array.from({ length: 200 }, (_, at) => ({
      job_id: String(at),
      last_error: 'x'.repeat(900),
      plugin: null,
    }));
    const list = { ...options, shape: shapeOf('job.list') };
    const rows = fitResult({ jobs }, { ...list, keepRows: true }).value['jobs'];
    expect(rows).toHaveLength(200);
    expect(rows).not.toMatchObject([{ last_error: 'x'.repeat(900) }]);
    expect(fitResult({ jobs }, { ...list, isFull: true }).value).toEqual({ jobs });
  });
});
