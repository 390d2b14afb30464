/** A server whose connection is ended while it starts: the database is there, so it starts again. */
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { isLostConnection, openServer } from '../../src/app/server.ts';
import { DuctileError } from '../../src/base/errors.ts';
import { limits } from '../../src/base/limits.ts';
import { makePostgresDialect } from '../../src/ledger/postgres/store.ts';
import { collectLog, eventually, makePlace, type LogRecords } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';

interface Start {
  readonly opening: ReturnType<typeof openServer>;
  readonly records: LogRecords;
  /** Ends the connection of the one that starts, in its first transaction; false when it is not there yet. */
  readonly endConnections: () => Promise<boolean>;
  /** Lets the start continue. */
  readonly letPass: () => Promise<unknown>;
}

async function makeHere() {
  const { config } = await makePlace({
    database: 'postgres',
    plugins: { worker: { program: succeeds } },
  });
  const { state } = config;
  if (state.kind !== 'postgres') throw new Error('it is a database');
  return { config, state };
}

/** A server that comes no further than to the lock under which the schema is made. */
async function startBehindLock(): Promise<Start> {
  const { config, state } = await makeHere();
  const { url, schema } = state;
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  onTestFinished(() => other.end());
  await other.query(`begin; ${makePostgresDialect(schema).lockClaims}`);
  const { log, records } = collectLog();
  const opening = openServer(config, log);
  opening.catch(() => undefined);
  const terminate = `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'
    and not granted and pg_backend_pid() = any(pg_blocking_pids(pid))`;
  return {
    opening,
    records,
    endConnections: async () => (await other.query(terminate)).rows.length > 0,
    letPass: () => other.query('rollback'),
  };
}

test('a connection that is ended once is retried', async () => {
  const { opening, records, endConnections, letPass } = await startBehindLock();
  await eventually('it waits', endConnections);
  await letPass();
  const server = await opening;
  onTestFinished(() => server.close());
  expect(server.instance.engine.status().state).toBe('running');
  expect(records.filter(isStartWarning)).toMatchObject([
    { message: 'the database ended a connection during the start; starting again' },
  ]);
});

test('a connection that is ended again and again is reported', async () => {
  const { opening, records, endConnections } = await startBehindLock();
  let hasFailed = false;
  opening.catch(() => (hasFailed = true));
  await eventually('it gives up', async () => {
    await endConnections();
    return hasFailed;
  });
  await expect(opening).rejects.toMatchObject({ code: 'LEDGER_UNAVAILABLE' });
  expect(records.filter(isStartWarning)).toHaveLength(limits.startRetriesMax);
});

test('a connection that is found dead is one that was ended', async () => {
  const { state } = await makeHere();
  const [dying, other] = [new pg.Client(state.url), new pg.Client(state.url)];
  await Promise.all([dying.connect(), other.connect()]);
  onTestFinished(() => other.end());
  const gone = new Promise<void>((resolve) => {
    dying.on('error', () => 'as it should be').once('end', () => resolve());
  });
  await dying.query(`select set_config('application_name', 'dying', false)`);
  await other.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'dying'`,
  );
  await gone;
  const cause: unknown = await dying.query('select 1').catch((error: unknown) => error);
  expect(isLostConnection(new DuctileError('LEDGER_UNAVAILABLE', 'gone', { cause }))).toBe(true);
});

test('a database that is not there is reported at once', async () => {
  const { config, state } = await makeHere();
  const { log, records } = collectLog();
  const url = 'postgres://someone@127.0.0.1:1/ledger';
  const opening = openServer({ ...config, state: { ...state, url } }, log);
  await expect(opening).rejects.toMatchObject({ code: 'LEDGER_UNAVAILABLE' });
  expect(records).toEqual([]);
});

/** The log of the configuration says that it isn't locked, which is another matter. */
function isStartWarning({ level, component }: LogRecords[number]): boolean {
  return level === 'warn' && component !== 'config';
}
