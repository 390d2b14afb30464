/**
 * Damaged files of the ledger, of its locks and of the configuration. Opening them reports the
 * problem with a code of the catalogue, and damage that a check detects never gets into use.
 */
import { noRules } from '../../src/ledger/rules.ts';
import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DuctileError, messageOf } from '../../src/base/errors.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openSoundLedger } from '../../src/ledger/open.ts';
import { beat, draft, request, succeed } from '../support/ledger/drafts.ts';
import { makeDirectory } from '../support/directory.ts';
import { tryConfigurations } from './damage/configuration.ts';
import { damages, verify, makeLedgerFile, type Damage } from './damage/ledger.ts';
import { tryProgram } from './damage/program.ts';
import { campaign, isShort, type Trial } from './support/campaign.ts';

/** Per trial: the damages of each kind to a ledger, the damaged configurations, and the starts. */
const { TIMES, CONFIGURATIONS, STARTS } = isShort
  ? { TIMES: 1, CONFIGURATIONS: 20, STARTS: 1 }
  : { TIMES: 10, CONFIGURATIONS: 100, STARTS: 5 };

campaign('damage', { trials: 1, timeoutMs: 600_000 }, async (trial) => {
  const ledgers = await tryLedgers(trial);
  const configurations = await tryConfigurations(trial, CONFIGURATIONS);
  return { ...ledgers, ...configurations, ...(await tryProgram(trial, STARTS)) };
});

async function tryLedgers({ random }: Trial) {
  const directory = await makeDirectory();
  const [sound, path] = [join(directory, 'sound.db'), join(directory, 'ledger.db')];
  await makeLedgerFile(sound);
  const sums = { ledgers: 0, refused: 0, undetectable: 0, foundByCheck: 0, refusedInUse: 0 };
  for (const damage of damages) {
    for (let time = 0; time < TIMES; time += 1) {
      for (const suffix of ['', '-wal', '-shm']) {
        rmSync(path + suffix, { force: true });
        if (existsSync(sound + suffix)) copyFileSync(sound + suffix, path + suffix);
      }
      damage.apply(path, random);
      sums.ledgers += 1;
      sums[await tryLedger(path, directory, damage)] += 1;
    }
  }
  return sums;
}

type Outcome = 'refused' | 'undetectable' | 'foundByCheck' | 'refusedInUse';

/** The codes with which a damaged ledger may be refused; damage that leaves a valid file isn't detected. */
const codes = ['LEDGER_CORRUPT', 'LEDGER_FOREIGN', 'LEDGER_NEWER', 'LEDGER_UNSUITABLE'];

async function tryLedger(
  path: string,
  directory: string,
  { name, code }: Damage,
): Promise<Outcome> {
  const { quick, full } = verify(path, directory);
  let ledger: Ledger;
  try {
    ledger = await openSoundLedger({ kind: 'sqlite', path }, noRules);
  } catch (error) {
    const reported = codeOf(error);
    const isRight = code === undefined ? codes.includes(reported) : code === reported;
    if (!isRight)
      throw new Error(`${name}: reported as ${reported}: ${messageOf(error)}`, { cause: error });
    return 'refused';
  }
  try {
    if (code !== undefined) throw new Error(`${name}: it was opened`);
    if (quick.length > 0) throw new Error(`${name}: used in silence: ${quick.join('; ')}`);
    const problems = await ledger.check();
    const isRefused = await use(ledger, name);
    if (full.length > 0 && problems.length === 0)
      throw new Error(`${name}: not seen by a check: ${full.join('; ')}`);
    if (problems.length > 0) return 'foundByCheck';
    return isRefused ? 'refusedInUse' : 'undetectable';
  } finally {
    await ledger.close();
  }
}

/** Runs a job on the ledger; returns true if a step was refused because of damage. */
async function use(ledger: Ledger, name: string): Promise<boolean> {
  try {
    await ledger.processes.heartbeat(beat('p2'));
    await ledger.jobs.enqueue({ jobs: [draft()] });
    const claimed = await ledger.jobs.claim(request('p2', { slots: 5 }));
    await ledger.jobs.settle(claimed.map((job) => succeed(job)));
    await ledger.jobs.list({ limit: 100 });
    await ledger.signals.list({ limit: 100 });
    return false;
  } catch (error) {
    if (codeOf(error) !== 'LEDGER_CORRUPT')
      throw new Error(`${name}, used: ${messageOf(error)}`, { cause: error });
    return true;
  }
}

function codeOf(error: unknown): string {
  return error instanceof DuctileError ? error.code : `no code (${String(error)})`;
}
