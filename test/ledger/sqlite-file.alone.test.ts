import { noRules } from '../../src/ledger/rules.ts';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { schemaVersion } from '../../src/ledger/migrate.ts';
import { openLedger, openSoundLedger } from '../../src/ledger/open.ts';
import * as files from '../../src/ledger/sqlite/file.ts';
import { makeDirectory } from '../support/directory.ts';
import { draft } from '../support/ledger/drafts.ts';

/** The writing connections that ledgers opened, to ask them what they are set to. */
const writers: DatabaseSync[] = [];

vi.mock('../../src/ledger/sqlite/file.ts', async (original) => {
  const actual = await original<typeof files>();
  return {
    ...actual,
    openWriter(path: string) {
      const writer = actual.openWriter(path);
      writers.push(writer);
      return writer;
    },
  };
});

beforeEach(() => void writers.splice(0));

async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o777).toString(8);
}

async function makePath(): Promise<string> {
  return join(await makeDirectory(), 'a', 'b', 'ledger.db');
}

async function make(path: string): Promise<void> {
  const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
  await ledger.jobs.enqueue({ jobs: [draft()] });
  await ledger.close();
}

function refusal(path: string): Promise<DuctileError> {
  return openLedger({ kind: 'sqlite', path }, noRules).then(
    async (ledger) => {
      await ledger.close();
      throw new Error('it was opened');
    },
    (error: unknown) => {
      if (error instanceof DuctileError) return error;
      throw error;
    },
  );
}

describe('the file of a ledger', () => {
  test('and its directories are for its owner alone', async () => {
    const path = await makePath();
    const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
    try {
      await ledger.jobs.enqueue({ jobs: [draft()] });
      const modes = [dirname(dirname(path)), dirname(path), path, `${path}-wal`, `${path}-shm`];
      expect(await Promise.all(modes.map(modeOf))).toEqual(['700', '700', '600', '600', '600']);
    } finally {
      await ledger.close();
    }
  });

  test('that was open to others is closed to them', async () => {
    const path = await makePath();
    await make(path);
    await import('node:fs/promises').then(({ chmod }) => chmod(path, 0o644));
    await make(path);
    expect(await modeOf(path)).toBe('600');
  });

  test('keeps a log, which the store itself syncs, and is marked as ours', async () => {
    const ledger = await openLedger({ kind: 'sqlite', path: await makePath() }, noRules);
    try {
      const [writer] = writers;
      if (writer === undefined) throw new Error('no writer was opened');
      const read = (name: string): unknown => files.pragma(writer, name);
      expect({
        journal: read('journal_mode'),
        sync: read('synchronous'),
        id: read('application_id'),
        version: read('user_version'),
        trusted: read('trusted_schema'),
        cells: read('cell_size_check'),
        mapped: read('mmap_size'),
        busyMs: read('busy_timeout'),
      }).toEqual({
        journal: 'wal',
        sync: 1,
        id: files.APPLICATION_ID,
        version: schemaVersion,
        trusted: 0,
        cells: 1,
        mapped: 0,
        busyMs: 5000,
      });
    } finally {
      await ledger.close();
    }
  });

  test('is one file again when no process has it open', async () => {
    const path = await makePath();
    await make(path);
    await expect(stat(`${path}-wal`)).rejects.toThrow('ENOENT');
  });
});

describe('a file that is not ours', () => {
  test('is refused and not touched when another program made it', async () => {
    const path = await makePath();
    await mkdir(dirname(path), { recursive: true });
    const db = new DatabaseSync(path);
    db.exec('create table notes (text)');
    db.close();
    const [before, mode] = [await readFile(path), await modeOf(path)];
    expect(await refusal(path)).toMatchObject({ code: 'LEDGER_FOREIGN', place: path });
    expect((await readFile(path)).equals(before)).toBe(true);
    expect(await modeOf(path)).toBe(mode);
  });

  test('is refused when its mark is that of another program, though it is empty', async () => {
    const path = await makePath();
    await mkdir(dirname(path), { recursive: true });
    const db = new DatabaseSync(path);
    db.exec('pragma application_id = 1');
    db.close();
    expect((await refusal(path)).code).toBe('LEDGER_FOREIGN');
  });

  test("is refused if it isn't a database at all", async () => {
    const path = await makePath();
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, 'a text file, longer than the header of a database is\n'.repeat(20));
    const before = await readFile(path);
    expect(await refusal(path)).toMatchObject({ code: 'LEDGER_CORRUPT', place: path });
    expect((await readFile(path)).equals(before)).toBe(true);
  });

  test('is refused when it is a directory, whose mode stays', async () => {
    const path = await makePath();
    await mkdir(path, { recursive: true, mode: 0o755 });
    expect(await refusal(path)).toMatchObject({ code: 'LEDGER_FOREIGN', place: path });
    expect(await modeOf(path)).toBe('755');
  });

  // Root may open whatever there is.
  test.skipIf(process.getuid?.() === 0)('with another owner is reported as theirs', async () => {
    const path = join(await makeDirectory(), 'ledger.db');
    await writeFile(path, 'theirs', { mode: 0o000 });
    expect(await refusal(path)).toMatchObject({
      code: 'LEDGER_UNAVAILABLE',
      hint: expect.stringContaining('owner') as string,
    });
  });

  test('is refused when its directory is a file', async () => {
    const path = await makePath();
    await make(path);
    const below = join(path, 'ledger.db');
    expect(await refusal(below)).toMatchObject({ code: 'LEDGER_UNAVAILABLE', place: below });
  });
});

describe('a file of ours', () => {
  test('with a newer schema is refused', async () => {
    const path = await makePath();
    await make(path);
    const db = new DatabaseSync(path);
    db.exec(`pragma user_version = ${schemaVersion + 1}`);
    db.close();
    const before = await readFile(path);
    expect((await refusal(path)).code).toBe('LEDGER_NEWER');
    expect((await readFile(path)).equals(before)).toBe(true);
  });

  test.each([
    ['its first page', 100, 400],
    ['a page in the middle', 3 * 4096, 4096],
  ])('with damage in %s is refused, or the damage is found', async (_, from, length) => {
    const path = await makePath();
    await make(path);
    const bytes = await readFile(path);
    bytes.fill(0xa5, from, from + length);
    await writeFile(path, bytes);
    const found = await openLedger({ kind: 'sqlite', path }, noRules).then(
      async (ledger) => {
        const problems = await ledger.check().catch((error: unknown) => [String(error)]);
        await ledger.close();
        return problems;
      },
      (error: unknown) => [(error as DuctileError).code],
    );
    expect(found.length).toBeGreaterThan(0);
    expect(found.join()).toMatch(/LEDGER_CORRUPT|integrity|malformed/);
  });

  test('that was cut short is refused, or the damage is found', async () => {
    const path = await makePath();
    await make(path);
    await writeFile(path, (await readFile(path)).subarray(0, 5000));
    const error = await openLedger({ kind: 'sqlite', path }, noRules).then(
      async (ledger) => {
        const problems = await ledger.check().catch(() => ['LEDGER_CORRUPT']);
        await ledger.close();
        return problems;
      },
      (thrown: unknown) => [(thrown as DuctileError).code],
    );
    expect(error).not.toEqual([]);
  });
});

describe('the requirements of the machine', () => {
  test.each(['3.51.3', '3.51.10', '3.52.0', '3.60.1', '4.0.0'])('SQLite %s is safe', (version) => {
    expect(() => files.requireSafeSqlite(version)).not.toThrow();
  });

  test.each(['3.51.2', '3.51.0', '3.51', '3.50.9', '3.9.99', '2.99.99', '0.0.0', ''])(
    'SQLite %j is too old',
    (version) => {
      expect(() => files.requireSafeSqlite(version)).toThrow(/can corrupt/);
    },
  );

  test.each([
    [0x6969, 'NFS'],
    [0xff534d42, 'CIFS'],
    [0xff534d42 | 0, 'CIFS'],
    [0x01021997, '9P'],
    [0xef53, undefined],
    [0x01021994, undefined],
    [0x794c7630, undefined],
  ])('a file system of kind %d is %s over a network', (type, name) => {
    expect(files.findNetworkFileSystem(type)).toBe(name);
  });
});

describe('damage that keeps the form of the file', () => {
  test("in a value that its column doesn't allow is found before it is used", async () => {
    const path = await makePath();
    const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
    await ledger.jobs.enqueue({ jobs: [draft()] });
    await ledger.close();
    const raw = new DatabaseSync(path);
    raw.exec("pragma ignore_check_constraints = on; update job_queue set status = 'quewed'");
    raw.close();
    await expect(openSoundLedger({ kind: 'sqlite', path }, noRules)).rejects.toMatchObject({
      code: 'LEDGER_CORRUPT',
      message: expect.stringContaining('job_queue'),
    });
  });

  test('in the record of migrations is reported, and nothing is migrated again', async () => {
    const path = await makePath();
    await make(path);
    const raw = new DatabaseSync(path);
    raw.exec('delete from schema_migrations');
    raw.close();
    await expect(openLedger({ kind: 'sqlite', path }, noRules)).rejects.toMatchObject({
      code: 'LEDGER_CORRUPT',
    });
  });

  test('in the schema is reported as damage, by a check and by any statement that meets it', async () => {
    const path = await makePath();
    await make(path);
    const bytes = await readFile(path);
    const at = bytes.indexOf("coalesce(dependency_key, '')");
    expect(at).toBeGreaterThan(0);
    bytes.write('coalescm', at);
    await writeFile(path, bytes);
    const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
    expect(await ledger.check()).toEqual([expect.stringMatching(/^integrity: .*coalescm/)]);
    const refused = ledger.jobs.enqueue({ jobs: [draft()] });
    await expect(refused).rejects.toMatchObject({ code: 'LEDGER_CORRUPT' });
    await ledger.close();
  });
});

test('a check of the whole file blocks no other work', async () => {
  const path = await makePath();
  await make(path);
  const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
  for (const check of [() => ledger.check(), () => ledger.quickCheck()]) {
    let turns = 0;
    const turning = setInterval(() => (turns += 1), 0);
    // A check in this thread is over without the event loop having turned once.
    expect(await check().finally(() => clearInterval(turning))).toEqual([]);
    expect(turns).toBeGreaterThan(0);
  }
  const pending = ledger.check().catch((error: unknown) => error);
  await ledger.close();
  expect(await pending).toSatisfy((found) => Array.isArray(found) || found instanceof Error);
});
