import { globSync } from 'node:fs';

type Rounds = readonly (readonly string[])[];

const signatures = ['proof', 'verify', 'presets', 'sign'];

/** Rounds of tests by the start of a source path, the longest first. The fastest tests come first. */
const testsBySource: readonly (readonly [source: string, rounds: Rounds])[] = [
  [
    'src/access/scopes.ts',
    [['test/access/scope-names.unit.test.ts'], ['test/access/scopes.unit.test.ts']],
  ],
  ['src/operation/authorize.ts', [['test/operation/authorize.unit.test.ts']]],
  ['src/access/tokens.service.ts', [['test/access/tokens.test.ts']]],
  [
    'src/webhook/',
    [
      signatures.map((name) => `test/webhook/${name}.unit.test.ts`),
      ['test/webhook/*.unit.test.ts'],
    ],
  ],
  [
    'src/job/claim.sql.ts',
    [
      ['test/job/claim.ledger.test.ts'],
      ['test/job/plugin-init.ledger.test.ts', 'test/tenant/tenant.ledger.test.ts'],
      ['test/job/dependency.ledger.test.ts', 'test/pipeline/cancel.ledger.test.ts'],
      ['test/job/race.ledger.test.ts'],
    ],
  ],
  ...['settle', 'fence'].map(
    (name) =>
      [
        `src/job/${name}.sql.ts`,
        [
          ['test/job/settle.ledger.test.ts'],
          ['test/job/cancel.ledger.test.ts', 'test/job/ends.ledger.test.ts'],
          ['test/job/claim.ledger.test.ts', 'test/pipeline/advance.ledger.test.ts'],
        ],
      ] as const,
  ),
  [
    'src/pipeline/run/advancer.sql',
    [
      ['test/pipeline/claim-branch.ledger.test.ts', 'test/pipeline/advance.ledger.test.ts'],
      ['test/pipeline/halt.ledger.test.ts'],
      ['test/pipeline/due.ledger.test.ts', 'test/pipeline/begin.ledger.test.ts'],
      ['test/pipeline/cancel.ledger.test.ts', 'test/job/process.ledger.test.ts'],
    ],
  ],
  [
    'src/pipeline/',
    [
      ['test/pipeline/advance.unit.test.ts', 'test/pipeline/choices.unit.test.ts'],
      ['test/pipeline/*.unit.test.ts'],
    ],
  ],
];

/** Returns rounds of test files. A mutant that survives one round is tried with the next. */
export function findTests(root: string, file: string): Rounds {
  const [, folder = '', ...rest] = file.split('/');
  const name = rest.at(-1)?.replace(/(\.service|\.sql|\.operations)?\.ts$/, '') ?? '';
  const own = `test/${folder}/${name}.unit.test.ts`;
  const known = testsBySource.find(([source]) => file.startsWith(source));
  const rounds = known?.[1] ?? [[own], [`test/${folder}/*.unit.test.ts`]];
  return rounds
    .map((patterns) => globSync([...patterns], { cwd: root }).toSorted())
    .filter((found) => found.length > 0);
}
