/**
 * The nth statement of every request to a ledger fails, once or from then on, with every kind of
 * database error. The request has happened completely or not at all, the caller learns which, and a
 * repetition after the fault succeeds.
 */
import { isDeepStrictEqual } from 'node:util';
import { DuctileError, messageOf } from '../../src/base/errors.ts';
import { makeId } from '../../src/base/ids.ts';
import { tables, type Row, type TableName } from '../../src/ledger/dialect.ts';
import { openBench, range, type Bench, type Kind } from '../support/ledger/bench.ts';
import { draft } from '../support/ledger/drafts.ts';
import { reading } from './statements/reading.ts';
import type { Scenario, Verb, World } from './statements/scenario.ts';
import { hurry, strikePostgres, strikeSqlite, type Striker } from './statements/strike.ts';
import { ways } from './statements/ways.ts';
import { writing } from './statements/writing.ts';
import { campaign, type Trial } from './support/campaign.ts';

/** All verbs except `close`. */
const verbs = { reading, writing } satisfies {
  reading: object;
  writing: Record<Exclude<Verb, keyof typeof reading | 'close'>, Scenario>;
};
const scenarios: readonly (readonly [string, Scenario])[] = [
  ...Object.entries(verbs.reading).map(
    ([name, read]) => [name, ({ ledger }: World) => Promise.resolve(() => read(ledger))] as const,
  ),
  ...Object.entries(verbs.writing),
  ...Object.entries(ways),
];

interface Fault {
  readonly name: string;
  readonly strike: () => Striker;
  /** Its name in reports. */
  readonly code: string;
}

const UNAVAILABLE = 'LEDGER_UNAVAILABLE';

function onSqlite(name: string, errcode: number, rollsBack = false, code = UNAVAILABLE): Fault {
  return { name, code, strike: () => strikeSqlite({ errcode, rollsBack }) };
}

function onPostgres(name: string, sqlState: string): Fault {
  return { name, code: UNAVAILABLE, strike: () => strikePostgres(sqlState) };
}

const faults: Readonly<Record<Kind, readonly Fault[]>> = {
  sqlite: [
    onSqlite('disk full', 13),
    onSqlite('I/O error that ends the transaction', 10, true),
    onSqlite('busy', 5),
    onSqlite('disk full that ends the transaction', 13, true),
    onSqlite('I/O error of an fsync', 10 | (4 << 8)),
    onSqlite('out of memory', 7, true),
    onSqlite('damage', 11, false, 'LEDGER_CORRUPT'),
  ],
  postgres: [
    onPostgres('disk full', '53100'),
    onPostgres('ended by an operator', '57P01'),
    onPostgres('lock not to be had', '55P03'),
    onPostgres('I/O error', '58030'),
    onPostgres('serialization', '40001'),
    onPostgres('too many connections', '53300'),
    onPostgres('too slow', '57014'),
    onPostgres('out of memory', '53200'),
  ],
};

/** The number of fault combinations per trial; the short form has few. */
const perTrial: Readonly<Record<Kind, number>> =
  process.env['DUCTILE_PROVE'] === undefined
    ? { sqlite: 15, postgres: 4 }
    : { sqlite: 20, postgres: 10 };

interface TrialCase extends Pick<Play, 'fault' | 'forEver'> {
  readonly kind: Kind;
  readonly part: readonly (readonly [string, Scenario])[];
}

/** Every fault, once and permanent, in every scenario: successive trials cover all combinations. */
const chosen: Readonly<Record<Kind, readonly TrialCase[]>> = {
  sqlite: choose('sqlite'),
  postgres: choose('postgres'),
};

campaign('statements', { trials: 3, timeoutMs: 120_000 }, (trial) => {
  const all = chosen[trial.index % 2 === 0 ? 'sqlite' : 'postgres'];
  const one = all[Math.floor(trial.index / 2) % all.length];
  if (one === undefined) throw new Error('there is nothing to try');
  return run(trial, one, 1 / all.length);
});

function choose(kind: Kind): TrialCase[] {
  const size = perTrial[kind];
  const parts = range(Math.ceil(scenarios.length / size)).map((at) =>
    scenarios.slice(at * size, (at + 1) * size),
  );
  const modes = [true, false];
  return faults[kind].flatMap((fault) =>
    modes.flatMap((forEver) => parts.map((part) => ({ kind, fault, forEver, part }))),
  );
}

async function run({ random }: Trial, { kind, fault, forEver, part }: TrialCase, share: number) {
  // The fault is installed before the ledger is opened, so that it sees which connection begins a
  // transaction.
  const striker = fault.strike();
  const bench = await openBench(kind);
  if (forEver && kind === 'postgres') hurry();
  const withNeighbour = kind === 'sqlite' && random() < 0.5;
  const sums = { scenarios: 0, statements: 0, refused: 0, absorbed: 0, uncertain: 0 };
  for (const [name, scenario] of part) {
    const found = await loop({ bench, name, scenario, fault, striker, forEver, withNeighbour });
    sums.scenarios += 1;
    for (const key of ['statements', 'refused', 'absorbed', 'uncertain'] as const)
      sums[key] += found[key];
  }
  return { ...sums, [`rounds on ${kind}`]: share };
}

interface Play {
  readonly bench: Bench;
  readonly name: string;
  readonly scenario: Scenario;
  readonly fault: Fault;
  readonly striker: Striker;
  readonly forEver: boolean;
  readonly withNeighbour: boolean;
}

async function loop(play: Play) {
  const { name, striker, fault, forEver } = play;
  const found = { statements: 0, refused: 0, absorbed: 0, uncertain: 0 };
  // The first request of a kind may create rows that exist only once.
  await ask(play, await setUp(play));
  const { change } = await ask(play, await setUp(play));
  let stand = await setUp(play);
  for (let at = 1; ; at += 1) {
    const where = `${name}, ${fault.name} ${forEver ? 'from' : 'at'} statement ${at}`;
    const { error, hits, change: changed } = await ask(play, stand, at);
    if (hits > 0) found.statements += 1;
    if (error !== undefined) {
      if (hits === 0) throw new Error(`${where}: failed unprovoked: ${messageOf(error)}`);
      const code = error instanceof DuctileError ? error.code : messageOf(error);
      // The repeated check whether a commit has happened must end, too.
      const isUncertain = code === 'LEDGER_UNCERTAIN' && forEver;
      const isOfCopy = name === 'backup' && code === 'BACKUP_INVALID';
      const expected = isUncertain || isOfCopy ? code : fault.code;
      mustBe(where, { code, changed }, { code: expected, changed: {} });
      if (isUncertain) found.uncertain += 1;
      found.refused += 1;
      continue;
    }
    mustBe(where, changed, change);
    if (hits === 0) return found;
    found.absorbed += 1;
    striker.disarm();
    stand = await setUp(play);
  }
}

function mustBe(where: string, found: unknown, expected: unknown): void {
  if (isDeepStrictEqual(found, expected)) return;
  throw new Error(`${where}: ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`);
}

interface Stand {
  readonly verb: () => Promise<unknown>;
  readonly before: Dump;
}

async function setUp({ bench, scenario }: Play): Promise<Stand> {
  const verb = await scenario({ ...bench, name: makeId() });
  return { verb, before: await bench.dump() };
}

/** The result, and the changes on the ledger. */
async function ask({ bench, striker, forEver, withNeighbour }: Play, stand: Stand, at?: number) {
  const beside = draft({ plugin: 'neighbour' });
  if (at !== undefined) striker.arm(at, forEver);
  const [answer] = await Promise.allSettled([
    stand.verb(),
    ...(withNeighbour ? [bench.ledger.jobs.enqueue({ jobs: [beside] })] : []),
  ]);
  const hits = striker.disarm();
  await bench.sql('delete from job_queue where id = ?', [beside.id]);
  const change = changeOf(stand.before, await bench.dump());
  const error: unknown = answer?.status === 'rejected' ? answer.reason : undefined;
  return { error, hits, change };
}

type Dump = Record<TableName, Row[]>;

/** The number of added and removed rows by table and status, and other changes. */
function changeOf(before: Dump, after: Dump): Record<string, number> {
  const change: Record<string, number> = {};
  const count = (table: TableName, rows: readonly Row[], by: number): void => {
    for (const { status, state } of rows) {
      const key = `${table} ${String(status ?? state ?? '')}`.trim();
      change[key] = (change[key] ?? 0) + by;
    }
  };
  for (const table of tables) {
    const [old, now] = [before[table], after[table]].map((rows) =>
      rows.map((row) => JSON.stringify(row)),
    );
    const [known, kept] = [new Set(old), new Set(now)];
    count(
      table,
      before[table].filter((row) => !kept.has(JSON.stringify(row))),
      -1,
    );
    count(
      table,
      after[table].filter((row) => !known.has(JSON.stringify(row))),
      1,
    );
  }
  return change;
}
