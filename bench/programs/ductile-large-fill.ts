/** Creates a large ledger for a configuration, and closes it. */
import { noRules } from '../../src/ledger/rules.ts';
import { DatabaseSync } from 'node:sqlite';
import { Client } from 'pg';
import { z } from 'zod';
import { openLedger } from '../../src/ledger/open.ts';
import { writeLargeLedger } from '../large-ledger.ts';
import { placeShape, readConfig } from './ductile.ts';
import { measure } from './harness.ts';

const shape = placeShape.extend({ finished: z.number(), queued: z.number() });

await measure(shape, async ({ config, plugin, finished, queued }) => {
  const { state } = readConfig(config);
  await (await openLedger(state, noRules)).close();
  const statements = writeLargeLedger({
    kind: state.kind,
    finished,
    queued,
    plugins: [plugin, 'mail', 'report', 'sync', 'backup'],
  });
  if (state.kind === 'sqlite') fillFile(state.path, statements);
  else await fillSchema(state.url, state.schema, statements);
  return { finished, queued };
});

function fillFile(path: string, statements: readonly string[]): void {
  const database = new DatabaseSync(path);
  database.exec('pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -400000');
  for (const statement of statements) database.exec(statement);
  database.exec('pragma journal_mode = wal');
  database.close();
}

async function fillSchema(
  url: string,
  schema: string,
  statements: readonly string[],
): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(`set search_path to "${schema}"`);
  for (const statement of statements) await client.query(statement);
  await client.query('vacuum analyze');
  await client.query('checkpoint');
  await client.end();
}
