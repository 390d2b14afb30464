/** Set up once for a test run: one PostgreSQL for all of its files, if any of them needs it. */
import type { TestProject } from 'vitest/node';
import { startPostgres } from './postgres-process.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Empty when only tests run that need no database. */
    postgresUrl: string;
  }
}

/** These data live as long as the test run, so a crash of the machine may lose them. */
const durabilityOff = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off'];
const settings = [...durabilityOff, 'max_connections=200', 'shared_buffers=64MB'];

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (!project.vitest.state.getPaths().some(needsDatabase)) {
    project.provide('postgresUrl', '');
    return async () => {};
  }
  const server = await startPostgres(settings);
  project.provide('postgresUrl', server.url);
  return server.stop;
}

function needsDatabase(path: string): boolean {
  return !/\/test\/(unit|tidy)[/.]/.test(path);
}
