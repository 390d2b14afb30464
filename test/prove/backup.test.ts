/**
 * Backups of a server under load, each restored to another location. Each is sound, contains
 * everything that was acknowledged before the backup was requested, and is a prefix of the history.
 */
import { noRules } from '../../src/ledger/rules.ts';
import { join } from 'node:path';
import { openLedger } from '../../src/ledger/open.ts';
import { restoreLedger } from '../../src/ledger/restore.ts';
import { startLoad } from '../support/crash/load.ts';
import { between } from '../support/crash/random.ts';
import { makeCrashTest, type CrashTest } from '../support/crash/crash-test.ts';
import { makeDirectory } from '../support/directory.ts';
import { eventually, type Database } from '../support/instance.ts';
import { campaign, isShort, type Trial } from './support/campaign.ts';
import { comparePart, readStory, type Story } from './support/story.ts';

const backupsOfTrial: readonly [number, number] = isShort ? [1, 1] : [20, 40];

interface Copy {
  readonly path: string;
  /** The jobs acknowledged before the backup was requested. */
  readonly owed: readonly string[];
  /** The last request that was sent before the backup was complete. */
  readonly lastRef: number;
  readonly ms: number;
}

campaign('backup', { trials: 1, timeoutMs: 600_000 }, (trial) =>
  run(trial, trial.index % 2 === 0 ? 'sqlite' : 'postgres'),
);

async function run({ random }: Trial, database: Database) {
  const crashTest = await makeCrashTest(database);
  await crashTest.start();
  const load = startLoad(crashTest.client, random);
  const directory = await makeDirectory();
  const copies: Copy[] = [];
  const count = between(random, ...backupsOfTrial);
  for (let index = 0; index < count; index += 1) {
    const enough = crashTest.client.history.length + between(random, 5, 30);
    await eventually('there is more to copy', () => crashTest.client.history.length >= enough);
    copies.push(await copy(crashTest, join(directory, `${index}.db`)));
  }
  await load.stop();
  await crashTest.drain();
  const { faults, counts } = await crashTest.verify();
  if (faults.length > 0) throw new Error(faults.join('\n'));
  const whole = await readStory(crashTest.place.config.state);
  for (const one of copies) await compare(one, whole, database);
  return { backups: copies.length, jobs: counts.jobs, backupMs: copies.map(({ ms }) => ms) };
}

async function copy({ client }: CrashTest, path: string): Promise<Copy> {
  const owed = client.history.flatMap(({ jobId }) => jobId ?? []);
  const before = performance.now();
  const { status, body } = await client.post('/system/backup', { to: path });
  if (status >= 300) throw new Error(`no backup: ${JSON.stringify(body)}`);
  const ms = Math.round(performance.now() - before);
  // Requests in progress have no response yet.
  const UNANSWERED_MAX = 3;
  return { path, owed, lastRef: client.history.length + UNANSWERED_MAX, ms };
}

async function compare({ path, owed, lastRef }: Copy, whole: Story, database: Database) {
  const place = { kind: 'sqlite', path: join(await makeDirectory(), 'restored.db') } as const;
  await restoreLedger(path, place);
  const ledger = await openLedger(place, noRules);
  const problems = await ledger.check();
  await ledger.close();
  const hasOneWriter = database === 'sqlite';
  const part = await readStory(place);
  const faults = [...problems, ...comparePart(part, whole, { owed, lastRef, hasOneWriter })];
  if (faults.length > 0) throw new Error(`${path}: ${faults.slice(0, 5).join('; ')}`);
}
