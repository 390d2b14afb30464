/** Ledger files, and the ways to damage them. */
import { noRules } from '../../../src/ledger/rules.ts';
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { openLedger } from '../../../src/ledger/open.ts';
import { carryOn, define, start } from '../../support/ledger/runs.ts';
import { range } from '../../support/ledger/bench.ts';
import { claimAs, draft, signalOf, succeed } from '../../support/ledger/drafts.ts';
import { between, type Random } from '../../support/crash/random.ts';
import { foreach, task } from '../../pipeline/graphs.ts';

const PAGE = 4096;
/** The offsets in the header of a SQLite file. */
const USER_VERSION = 60;
const APPLICATION_ID = 68;

/** A ledger with work; its last changes are in its journal. */
export async function makeLedgerFile(path: string): Promise<void> {
  const made = { kind: 'sqlite', path: `${path}.made` } as const;
  const before = await openLedger(made, noRules);
  const graph = await define(before, [foreach('each', 'a'), task('a')]);
  await start(before, graph, { items: range(20) });
  await carryOn(before, graph);
  await before.jobs.enqueue({ jobs: range(300).map(() => draft({ payload: filler })) });
  await before.close();
  const ledger = await openLedger(made, noRules);
  const claimed = await claimAs(ledger, 'p1', { slots: 10 });
  await ledger.jobs.settle(claimed.map((job) => succeed(job, { signals: [signalOf(job)] })));
  // The state after a crash: the file and its journal, not closed.
  for (const suffix of ['', '-wal']) copyFileSync(made.path + suffix, path + suffix);
  await ledger.close();
}

const filler = JSON.stringify({ filler: 'x'.repeat(500) });

export interface Damage {
  readonly name: string;
  /** The expected error code; undefined if it depends on the damaged part. */
  readonly code?: string;
  readonly apply: (path: string, random: Random) => void;
}

export const damages: readonly Damage[] = [
  { name: 'bits flipped', apply: onBytes(flipBits) },
  { name: 'cut off', apply: onBytes((bytes, random) => bytes.subarray(0, at(bytes, random))) },
  { name: 'pages cut off', apply: onBytes(cutPages) },
  { name: 'pages swapped', apply: onBytes(swapPages) },
  { name: 'a page zeroed', apply: onBytes(zeroPage) },
  {
    name: 'garbage at its end',
    apply: onBytes((bytes, random) => Buffer.concat([bytes, noise(random, PAGE)])),
  },
  { name: 'header zeroed', code: 'LEDGER_CORRUPT', apply: alone((bytes) => bytes.fill(0, 0, 100)) },
  {
    name: 'another program',
    code: 'LEDGER_FOREIGN',
    apply: alone(number(APPLICATION_ID, 0x0f055112)),
  },
  { name: 'a newer schema', code: 'LEDGER_NEWER', apply: alone(number(USER_VERSION, 9999)) },
  {
    name: 'a text file',
    code: 'LEDGER_CORRUPT',
    apply: alone(() => Buffer.from('state: none\n'.repeat(99))),
  },
  { name: 'journal deleted', apply: (path) => rmSync(`${path}-wal`, { force: true }) },
  {
    name: 'journal cut off',
    apply: onBytes((bytes, random) => bytes.subarray(0, at(bytes, random)), '-wal'),
  },
  { name: 'bits of the journal flipped', apply: onBytes(flipBits, '-wal') },
  {
    name: 'journal of another file',
    apply: onBytes((bytes, random) => noise(random, bytes.length), '-wal'),
  },
  {
    name: 'garbage as its index',
    apply: (path, random) => writeFileSync(`${path}-shm`, noise(random, 8 * PAGE)),
  },
];

type Change = (bytes: Buffer, random: Random) => Buffer;

function onBytes(change: Change, suffix = ''): Damage['apply'] {
  return (path, random) =>
    writeFileSync(path + suffix, change(readFileSync(path + suffix), random));
}

/** Damages the file itself, without a journal that would undo it. */
function alone(change: Change): Damage['apply'] {
  return (path, random) => {
    const db = new DatabaseSync(path);
    db.exec('pragma wal_checkpoint(truncate)');
    db.close();
    rmSync(`${path}-wal`, { force: true });
    onBytes(change)(path, random);
  };
}

function number(offset: number, value: number): Change {
  return (bytes) => {
    bytes.writeUInt32BE(value, offset);
    return bytes;
  };
}

function at(bytes: Buffer, random: Random): number {
  return between(random, 1, bytes.length - 1);
}

function flipBits(bytes: Buffer, random: Random): Buffer {
  for (let bits = between(random, 1, 20); bits > 0; bits -= 1) {
    const place = between(random, 0, bytes.length - 1);
    bytes[place] = (bytes[place] ?? 0) ^ (1 << between(random, 0, 7));
  }
  return bytes;
}

function cutPages(bytes: Buffer, random: Random): Buffer {
  return bytes.subarray(0, between(random, 1, pagesOf(bytes) - 1) * PAGE);
}

function swapPages(bytes: Buffer, random: Random): Buffer {
  const [one, two] = [page(bytes, random), page(bytes, random)];
  const copy = Buffer.from(one);
  two.copy(one);
  copy.copy(two);
  return bytes;
}

function zeroPage(bytes: Buffer, random: Random): Buffer {
  page(bytes, random).fill(0);
  return bytes;
}

function page(bytes: Buffer, random: Random): Buffer {
  const first = between(random, 1, pagesOf(bytes) - 1) * PAGE;
  return bytes.subarray(first, first + PAGE);
}

function pagesOf(bytes: Buffer): number {
  return Math.floor(bytes.length / PAGE);
}

export function noise(random: Random, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => between(random, 0, 255)));
}

/** SQLite's own check of a file, outside of the program, on a copy. */
export function verify(path: string, directory: string): { quick: string[]; full: string[] } {
  const copy = join(directory, 'judged.db');
  for (const suffix of ['', '-wal', '-shm']) {
    rmSync(copy + suffix, { force: true });
    if (existsSync(path + suffix)) copyFileSync(path + suffix, copy + suffix);
  }
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(copy);
    db.exec('pragma cell_size_check = on');
    return { quick: ask(db, 'quick_check(5)'), full: ask(db, 'integrity_check(20)') };
  } catch (error) {
    return { quick: [String(error)], full: [String(error)] };
  } finally {
    db?.close();
  }
}

function ask(db: DatabaseSync, pragma: string): string[] {
  try {
    const rows = db.prepare(`pragma ${pragma}`).all();
    return rows.map((row) => String(Object.values(row)[0])).filter((line) => line !== 'ok');
  } catch (error) {
    return [String(error)];
  }
}
