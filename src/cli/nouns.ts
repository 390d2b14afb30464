const nouns: Readonly<Record<string, string>> = {
  analytics: 'Statistics about jobs: counts, durations and failures.',
  config: 'Check, lock, read and change the configuration.',
  credential: 'Secrets for plugins, stored encrypted.',
  directive: 'Requested changes, with their requester, approval and outcome.',
  incident: 'Problems that Ductile has detected, open and resolved.',
  installation: 'Installed packages, and what each of them provides.',
  job: 'Single executions of a plugin command, with their attempts and results.',
  jobs: 'Cancel or retry many jobs at once.',
  package: 'Reusable bundles of plugin settings, schedules, routes and pipelines, without code.',
  pipeline: 'Workflows: the steps that run after each other or in parallel.',
  plugin: 'The programs that jobs run.',
  queue: 'Running and waiting jobs.',
  run: 'Executions of pipelines, with their steps and outcome.',
  schedule: 'Times at which plugin commands run.',
  signal: 'Events that plugins, webhooks, callers and Ductile have emitted.',
  system: 'The service: start, status, checks and backups.',
  tenant: 'Isolated teams or customers that share this service, each with its own database.',
  token: 'Tokens for the API and the dashboard.',
  why: 'Explain why something ran, did not run or waits, and what to do.',
  webhook: 'HTTP endpoints that start work when another system calls them.',
};

/** Describes a noun; a noun without a description is described by its name. */
export function describeNoun(noun: string): string {
  return nouns[noun] ?? `Commands for ${noun}.`;
}
