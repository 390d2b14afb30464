/** Set up once for a test run: one PostgreSQL for all of its files, if any of them needs it. */
import type { TestProject } from 'vitest/node';
import { startTemplate } from './postgres-template.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Empty when only tests run that need no database. */
    postgresUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (!project.vitest.state.getPaths().some(needsDatabase)) {
    project.provide('postgresUrl', '');
    return async () => {};
  }
  const server = await startTemplate('early');
  project.provide('postgresUrl', server.url);
  return server.stop;
}

function needsDatabase(path: string): boolean {
  return !/\/test\/(unit|tidy)[/.]/.test(path);
}
