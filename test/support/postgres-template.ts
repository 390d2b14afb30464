import { noRules } from '../../src/ledger/rules.ts';
import pg from 'pg';
import { openLedger } from '../../src/ledger/open.ts';
import { startPostgres, type PostgresServer } from './postgres-process.ts';

/** Empty ledger, which the databases of tests are copied from. */
export const TEMPLATE = { database: 'template', schema: 'ledger' };

/** The data is only for tests, so a crash of the machine may lose it. */
const settings = [
  'fsync=off',
  'full_page_writes=off',
  'max_connections=200',
  'shared_buffers=64MB',
];
const committed = { early: 'synchronous_commit=off', fully: 'synchronous_commit=on' };

/** Starts a server with the template. Commits that are `early` don't survive a crash of the server. */
export async function startTemplate(commits: keyof typeof committed): Promise<PostgresServer> {
  const server = await startPostgres([...settings, committed[commits]]);
  await makeTemplate(server.url);
  return server;
}

async function makeTemplate(serverUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  await client.query(`create database ${TEMPLATE.database}`);
  await client.end();
  const url = new URL(serverUrl);
  url.pathname = `/${TEMPLATE.database}`;
  const ledger = await openLedger(
    { kind: 'postgres', url: url.href, schema: TEMPLATE.schema },
    noRules,
  );
  await ledger.close();
}
