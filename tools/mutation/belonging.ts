/** Which tests have to notice a change of a file. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

type Rounds = readonly (readonly string[])[];

const signatures = ['proof', 'verify', 'presets', 'sign'];

/** By the beginning of a path, the more exact first. The quickest tests come first: most die there. */
const belonging: readonly (readonly [source: string, rounds: Rounds])[] = [
  [
    'src/access/scopes.ts',
    [['test/unit/operations/scope-words.test.ts'], ['test/unit/operations/scopes.test.ts']],
  ],
  ['src/access/authorize.operations.ts', [['test/unit/http/gate.test.ts']]],
  ['src/access/tokens.service.ts', [['test/http/access.test.ts']]],
  [
    'src/webhook/',
    [signatures.map((name) => `test/unit/webhook/${name}.test.ts`), ['test/unit/webhook/']],
  ],
  [
    'src/job/claim.sql.ts',
    [
      ['test/conformance/claim.test.ts'],
      ['test/conformance/generation.test.ts', 'test/conformance/tenant.test.ts'],
      ['test/conformance/dependency.test.ts', 'test/conformance/run-cancel.test.ts'],
      ['test/conformance/race.test.ts'],
    ],
  ],
  ...['settle', 'fence'].map(
    (name) =>
      [
        `src/job/${name}.sql.ts`,
        [
          ['test/conformance/settle.test.ts'],
          ['test/conformance/cancel.test.ts', 'test/conformance/ends.test.ts'],
          ['test/conformance/claim.test.ts', 'test/conformance/run-advance.test.ts'],
        ],
      ] as const,
  ),
  [
    'src/pipeline/run/advance.sql',
    [
      ['test/conformance/advancement.test.ts', 'test/conformance/run-advance.test.ts'],
      ['test/conformance/run-halt.test.ts'],
      ['test/conformance/run-due.test.ts', 'test/conformance/run-begin.test.ts'],
      ['test/conformance/run-cancel.test.ts', 'test/conformance/process.test.ts'],
    ],
  ],
  [
    'src/pipeline/',
    [
      ['test/unit/pipeline/advance.test.ts', 'test/unit/pipeline/choices.test.ts'],
      ['test/unit/pipeline/'],
    ],
  ],
];

/** Rounds of test files; what survives one meets the next. */
export function testsOf(root: string, file: string): Rounds {
  const known = belonging.find(([source]) => file.startsWith(source));
  if (known !== undefined) return known[1];
  const [, folder = '', ...rest] = file.split('/');
  const own = `test/unit/${folder}/${rest.join('/').replace(/\.ts$/, '.test.ts')}`;
  const around = `test/unit/${folder}/`;
  return [own, around].filter((path) => existsSync(join(root, path))).map((path) => [path]);
}
