/** The scripts, changes and conclusions of `ductile prove`. */
import { describe, expect, test } from 'vitest';
import { breakLoops, type StubResponse } from '../../../extras/prove/stub-responses.ts';
import { findViolations, recoveryOf, type Evidence } from '../../../extras/prove/check-evidence.ts';
import { outcomeOf, type Lineage } from '../../../extras/prove/lineage.ts';
import type { RecordLine } from '../../../extras/prove/stub-record.ts';
import { sampleOf } from '../../../extras/prove/sample.ts';

describe('a sample', () => {
  test('is what the schema says of itself, else the least that fits', () => {
    const schema = {
      type: 'object',
      properties: {
        fixed: { const: 3 },
        usual: { type: 'string', default: 'here' },
        one: { enum: ['a', 'b'] },
        name: { type: 'string', minLength: 8 },
        count: { type: 'integer', minimum: 5 },
        list: { type: 'array', items: { type: 'boolean' }, minItems: 2 },
        inner: { properties: { deep: { type: ['null', 'string'] } } },
        either: { anyOf: [{ type: 'number' }, { type: 'string' }] },
        unsaid: {},
      },
    };
    expect(sampleOf(schema)).toEqual({
      fixed: 3,
      usual: 'here',
      one: 'a',
      name: 'sample..',
      count: 5,
      list: [true, true],
      inner: { deep: null },
      either: 1,
      unsaid: 'sample',
    });
    expect([sampleOf(undefined), sampleOf({ type: 'string' })]).toEqual([{}, {}]);
  });
});

describe('circles', () => {
  const answer = (plugin: string, ...types: string[]): StubResponse => ({
    plugin,
    command: 'handle',
    step: undefined,
    by: 'recorded',
    jobId: undefined,
    without: undefined,
    response: { status: 'ok', result: 'x', events: types.map((type) => ({ type })) },
  });

  test('are broken where they would be endless, and nowhere else', () => {
    const findFollowers = (_: StubResponse, type: string): string[] => [`${type}.handle`];
    const answers = [answer('a', 'b'), answer('b', 'a'), answer('c', 'a'), answer('d')];
    const broken = breakLoops(answers, findFollowers);
    expect(broken.map(({ plugin, response }) => [plugin, 'events' in response])).toEqual([
      ['a', false],
      ['b', false],
      ['c', true],
      ['d', true],
    ]);
    expect(broken[0]?.without).toContain('endless loop');
  });
});

const job = (id: string, more: Partial<Lineage['jobs'][number]> = {}): Lineage['jobs'][number] => ({
  id,
  plugin: 'notes',
  command: 'handle',
  status: 'succeeded',
  stepId: 'first',
  idempotencyKey: `key-${id}`,
  lastError: null,
  ...more,
});
const line = (jobId: string, more: Partial<RecordLine> = {}): RecordLine => ({
  phase: 'start',
  job_id: jobId,
  attempt: 1,
  plugin: 'notes',
  command: 'handle',
  idempotency_key: `key-${jobId}`,
  pid: 1,
  born: 0,
  at: 0,
  ...more,
});
const attempt = (jobId: string, number: number, status: 'succeeded' | 'crashed') => ({
  jobId,
  attempt: number,
  status,
});

describe('the verdict', () => {
  const whole: Lineage = { jobs: [job('j')], runs: [] };
  const sound: Evidence = {
    requests: [{ unit: 'fan', id: 'r' }],
    lineages: new Map([['r', whole]]),
    baseline: new Map([['fan', outcomeOf(whole)]]),
    attempts: [attempt('j', 1, 'crashed'), attempt('j', 2, 'succeeded')],
    record: [line('j'), line('j', { attempt: 2 }), line('j', { attempt: 2, phase: 'end' })],
    strays: [],
  };

  test('is clean when work was cut off and done again', () => {
    expect(findViolations(sound)).toEqual({ lost: [], twice: [], different: [], repeated: 1 });
  });

  const count = (more: Partial<Evidence>): number[] => {
    const { lost, twice, different } = findViolations({ ...sound, ...more });
    return [lost.length, twice.length, different.length];
  };

  test.each<[string, Partial<Evidence>, number[]]>([
    ['what was accepted is not there', { lineages: new Map([['r', undefined]]) }, [1, 0, 0]],
    ['something was asked for by nobody', { strays: ['x'] }, [0, 1, 0]],
    [
      'a job succeeded twice',
      { attempts: [attempt('j', 1, 'succeeded'), attempt('j', 2, 'succeeded')] },
      [0, 1, 0],
    ],
    ['an attempt was started twice', { record: [line('j'), line('j')] }, [0, 1, 0]],
    [
      'a job was run after it had succeeded',
      { attempts: [attempt('j', 1, 'succeeded')], record: [line('j'), line('j', { attempt: 2 })] },
      [0, 1, 0],
    ],
    [
      'two jobs do the same work',
      {
        lineages: new Map([
          ['r', { jobs: [job('j'), job('k', { idempotencyKey: 'key-j' })], runs: [] }],
        ]),
      },
      [0, 1, 1],
    ],
    [
      'a job came to another end',
      { lineages: new Map([['r', { jobs: [job('j', { status: 'dead' })], runs: [] }]]) },
      [0, 0, 1],
    ],
  ])('finds that %s', (_, more, found) => {
    expect(count(more)).toEqual(found);
  });
});

describe('recovery', () => {
  test('is from a kill to the first process that began after it', () => {
    const kills = [
      { kind: 'engine', atMs: 1000 },
      { kind: 'engine', atMs: 5000 },
      { kind: 'plugin', atMs: 7000, jobId: 'j' },
    ] as const;
    const record = [
      // The attempt began before the kill, although it wrote after it.
      line('i', { born: 990, at: 1010 }),
      line('j', { born: 1300, at: 1400 }),
      line('i', { born: 5700, at: 5800 }),
      line('i', { born: 7050, at: 7100 }),
      line('j', { born: 7200, at: 7250 }),
    ];
    expect(recoveryOf('engine', kills, record)).toEqual({ n: 2, p50: 400, p99: 800, max: 800 });
    expect(recoveryOf('plugin', kills, record)).toEqual({ n: 1, p50: 250, p99: 250, max: 250 });
    expect(recoveryOf('spawner', kills, record)).toBeNull();
  });

  test('leaves out a kill that another one overtook', () => {
    const kills = [1000, 1100].map((atMs) => ({ kind: 'engine' as const, atMs }));
    const record = [line('j', { born: 1500, at: 1600 })];
    expect(recoveryOf('engine', kills, record)).toMatchObject({ n: 1, p50: 500 });
  });
});
