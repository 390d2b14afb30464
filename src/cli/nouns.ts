const nouns: Readonly<Record<string, string>> = {
  analytics: 'Figures about what was done and how long it took.',
  config: 'The configuration: check, lock, read and change it.',
  credential: 'Secrets for plugins, sealed at rest.',
  directive: 'What somebody wanted to change, and what became of it.',
  incident: 'What is wrong, since when, and until when it was.',
  installation: 'Packages that are installed, and what each of them brought.',
  job: 'Pieces of work: what became of them and why.',
  jobs: 'Many jobs at once, chosen by what they have in common.',
  package: 'Ready-made bundles of plugins, schedules and pipelines; metadata alone.',
  pipeline: 'Declared flows: what follows from what.',
  plugin: 'The programs that do the work.',
  queue: 'What is running and what waits.',
  run: 'Pipelines under way, and what became of them.',
  schedule: 'When commands are due.',
  signal: 'What happened: facts that never change.',
  system: 'The service as a whole: start, status, backup.',
  tenant: 'Ledgers beside the first, for others who share this service.',
  token: 'Who may use the API.',
  why: 'Why something ran, did not run, or waits, and what would move it.',
  webhook: 'Places where others deliver what starts work.',
};

/** Describes a noun; a noun without a description is described by its name. */
export function describeNoun(noun: string): string {
  return nouns[noun] ?? `Everything about ${noun}.`;
}
