/** Creates a SQLite ledger with finished and queued jobs, and closes it. */
import { noRules } from '../../src/ledger/rules.ts';
import { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { toTimestamp } from '../../src/base/clock.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { fillQueue, LEDGER_PLUGIN, makeDraft } from './ductile.ts';
import { measure } from './harness.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

const shape = z.object({ path: z.string(), finished: z.number(), queued: z.number() });

await measure(shape, async ({ path, finished, queued }) => {
  const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
  await fillQueue(ledger, LEDGER_PLUGIN, queued);
  await ledger.close();
  if (finished > 0) addFinished(path, finished);
  return { finished, queued };
});

/** Inserts into the tables directly; through the ledger's functions it would take an hour. */
function addFinished(path: string, count: number): void {
  const database = new DatabaseSync(path);
  database.exec('pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -400000');
  const at = toTimestamp(Date.now() - DAY_MS);
  const { payload, plugin, command } = makeDraft(LEDGER_PLUGIN);
  const numbers = `with recursive number (n) as (
    select 1 union all select n + 1 from number where n < :count)`;
  // Ids start with a time, like real ones, so that newer ones follow them in every index.
  const id = `printf('01930000-0000-7000-8000-%012x', n)`;
  database.exec('begin');
  database
    .prepare(
      `${numbers} insert into job_queue (id, plugin, command, payload, status, submitted_by, actor,
        created_at, ready_at, started_at, completed_at, root_job_id, idempotency_key)
      select ${id}, :plugin, :command, :payload, 'succeeded', 'api', 'bench', :at, :at, :at, :at,
        ${id}, ${id} from number`,
    )
    .run({ count, plugin, command, payload, at });
  database
    .prepare(
      `${numbers} insert into job_log (id, job_id, plugin, command, status, cause, result, attempt,
        submitted_by, created_at, started_at, completed_at)
      select ${id} || '-1', ${id}, :plugin, :command, 'succeeded', 'ok',
        '{"status":"ok","result":"ok"}', 1, 'api', :at, :at, :at from number`,
    )
    .run({ count, plugin, command, at });
  database.exec('commit');
  database.close();
}
