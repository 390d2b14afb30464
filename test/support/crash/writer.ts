/** Writes to a ledger as fast as it can, and says what was acknowledged. */
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
// It is left open on purpose: nothing of it may keep the process alive.
