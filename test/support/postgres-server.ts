/**
 * Setup of a test run: starts one PostgreSQL for all files, if any of them needs it, and one for the
 * crash tests, in which services die within transactions.
 */
import type { TestProject } from 'vitest/node';
import { startTemplate } from './postgres-template.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Empty if no test needs a database. */
    postgresUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Every project runs this setup, but the root provides the server for all of them.
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
