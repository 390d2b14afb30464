import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { beforeAll, inject } from 'vitest';
import { atEnd } from './at-end.ts';
import type { PostgresServer } from './postgres-process.ts';
import { startTemplate, TEMPLATE } from './postgres-template.ts';

let ownServer: string | undefined;

type OwnServer = Pick<PostgresServer, 'goDown' | 'comeBack'>;

/**
 * Starts a server for one file. Tests about the order of commits need it, because readers wait for the
 * oldest transaction of a whole server. Tests that stop the server need it, too.
 */
export function useOwnServer(): OwnServer {
  let server: PostgresServer | undefined;
  const get = (): PostgresServer => {
    if (server === undefined) throw new Error('it is there when the tests of the file run');
    return server;
  };
  beforeAll(async () => {
    const started = await startTemplate('fully');
    server = started;
    ownServer = started.url;
    atEnd(async () => {
      ownServer = undefined;
      await started.stop();
    });
  });
  return { goDown: (how) => get().goDown(how), comeBack: () => get().comeBack() };
}

/**
 * Creates a database with an empty ledger; returns its URL. It is dropped at the end of the file, which
 * fails if a connection is still open.
 */
export async function makeSchemaUrl(): Promise<string> {
  const database = `t_${randomBytes(6).toString('hex')}`;
  // A copy is ten times faster than all migrations.
  await runStatement(`create database ${database} template ${TEMPLATE.database} strategy wal_log`);
  atEnd(() => runStatement(`drop database ${database}`));
  const url = new URL(getServerUrl());
  url.pathname = `/${database}`;
  url.searchParams.set('schema', TEMPLATE.schema);
  return url.href;
}

async function runStatement(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: getServerUrl() });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

function getServerUrl(): string {
  const url = ownServer ?? inject('postgresUrl');
  if (url === '') throw new Error('no PostgreSQL runs for *.unit.test.ts files: rename this one');
  return url;
}
