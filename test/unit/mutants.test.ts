/** The lies that `npm run mutate` tells. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { API } from 'typescript/unstable/sync';
import { expect, test } from 'vitest';
import { applyMutant, findMutants } from '../../tools/mutation/mutants.ts';
import { makeDirectory } from '../support/directory.ts';

const source = `import { x } from './x.ts';
type Kind = 'a' | 'b';
export function f(n: number, kind: Kind, done: boolean): string {
  if (n >= 2 && !done) return 'code';
  x.note('a sentence for people');
  return kind === 'a' ? \`\${n + 1}\` : 'none';
}
`;

test('are small, each at its place, and none where nothing can go wrong', async () => {
  const directory = await makeDirectory();
  const file = join(directory, 'f.ts');
  writeFileSync(file, source);
  writeFileSync(join(directory, 'tsconfig.json'), '{ "files": ["f.ts"] }');
  const api = new API({ cwd: directory });
  const [project] = api
    .updateSnapshot({ openProjects: [join(directory, 'tsconfig.json')] })
    .getProjects();
  const parsed = project?.program.getSourceFile(file);
  const mutants = parsed === undefined ? [] : findMutants(parsed);
  api.close();
  expect(mutants.map(({ line, change }) => `${line} ${change}`)).toEqual([
    '4 n >= 2 && !done → true',
    '4 n >= 2 && !done → false',
    '4 >= → >',
    '4 >= → <',
    '4 2 → 3',
    '4 && → ||',
    '4 !done → done',
    "4 return 'code'; → {}",
    "4 'code' → 'mutated'",
    "5 x.note('a sentence for people'); → {}",
    "6 kind === 'a' → true",
    "6 kind === 'a' → false",
    '6 === → !==',
    "6 'a' → 'mutated'",
    '6 + → -',
    '6 1 → 2',
    "6 'none' → 'mutated'",
  ]);
  const [first] = mutants;
  if (first === undefined) throw new Error('there is none');
  expect(applyMutant(source, first).split('\n')[3]).toBe("  if (true) return 'code';");
});
