/** Where a wrong branch loses work or does it twice: of all branches, how many per cent the tests take. */
export const core: Readonly<Record<string, number>> = {
  'src/directive/**': 62,
  'src/job/**': 100,
  'src/package/**': 79,
  'src/pipeline/**': 91,
  'src/schedule/**': 94,
  'src/signal/**': 92,
  'src/webhook/**': 94,
  'src/engine/{advancer,conclude,dispatcher,heartbeat,reaper,settle}.ts': 72,
  'src/ledger/*-verbs.ts': 93,
};

/** Is in the environment of the tests whose steps are counted. */
export const COUNTING = 'DUCTILE_COUNTS_BRANCHES';
