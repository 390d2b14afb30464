import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, inject } from 'vitest';

const lockTimeoutMs = 10_000;
const schemas: string[] = [];

/**
 * The URL of a schema that nobody else uses; whoever opens it creates it. It is dropped when the
 * tests of the file that asked are done, which fails if a connection still holds on to it.
 */
export async function makeSchemaUrl(): Promise<string> {
  const schema = `t_${randomBytes(6).toString('hex')}`;
  schemas.push(schema);
  const url = new URL(getServerUrl());
  url.searchParams.set('schema', schema);
  return Promise.resolve(url.href);
}

afterAll(async () => {
  if (schemas.length === 0) return;
  const client = new pg.Client({ connectionString: getServerUrl(), lock_timeout: lockTimeoutMs });
  await client.connect();
  try {
    for (const schema of schemas.splice(0))
      await client.query(`drop schema if exists ${schema} cascade`);
  } finally {
    await client.end();
  }
});

function getServerUrl(): string {
  const url = inject('postgresUrl');
  if (url === '')
    throw new Error('no PostgreSQL runs for tests in test/unit and test/tidy: move this one');
  return url;
}
