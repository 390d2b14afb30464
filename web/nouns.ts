/** Pages in the order of the menu. */
export const nouns: readonly (readonly [page: string, title: string])[] = [
  ['overview', 'Overview'],
  ['doctor', 'Doctor'],
  ['incidents', 'Incidents'],
  ['jobs', 'Jobs'],
  ['runs', 'Runs'],
  ['signals', 'Signals'],
  ['schedules', 'Schedules'],
  ['webhooks', 'Webhooks'],
  ['plugins', 'Plugins'],
  ['packages', 'Packages'],
  ['directives', 'Directives'],
  ['tenants', 'Tenants'],
];
