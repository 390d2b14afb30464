/**
 * Set up once for a test run: one PostgreSQL for all of its files, if any of them needs it, and one of
 * their own for those in which servers die in the middle of transactions.
 */
import type { TestProject } from 'vitest/node';
import { startTemplate } from './postgres-template.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Empty when only tests run that need no database. */
    postgresUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // The root provides it for all projects, and each of them runs this setup.
  const users = project.name === 'crash' ? project : project.vitest.getRootProject();
  if (users.getProvidedContext().postgresUrl !== undefined) return async () => {};
  if (!project.vitest.state.getPaths().some(needsDatabase)) {
    users.provide('postgresUrl', '');
    return async () => {};
  }
  const server = await startTemplate('early');
  users.provide('postgresUrl', server.url);
  return server.stop;
}

function needsDatabase(path: string): boolean {
  return !/\/test\/(unit|tidy)[/.]/.test(path);
}
