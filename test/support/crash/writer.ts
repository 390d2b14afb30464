/** Writes to a ledger as fast as possible, and prints acknowledged ids. */
import { noRules } from '../../../src/ledger/rules.ts';
import { writeSync } from 'node:fs';
import { openLedger } from '../../../src/ledger/open.ts';
import { draft } from '../ledger/drafts.ts';

const [path = '', times = ''] = process.argv.slice(2);
const payload = JSON.stringify({ padding: 'x'.repeat(16_000) });
const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
for (let time = 0; time < Number(times); time += 1) {
  const jobs = Array.from({ length: 20 }, () => draft({ payload }));
  await ledger.jobs.enqueue({ jobs });
  writeSync(1, `${jobs.map(({ id }) => id).join('\n')}\n`);
}
// The ledger stays open on purpose: it must not keep the process alive.
