/** The mutants of `npm run mutate`. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { API } from 'typescript/unstable/sync';
import { expect, test } from 'vitest';
import { applyMutant, findMutants, type Mutant } from '../../tools/mutation/mutants.ts';
import { makeDirectory } from '../support/directory.ts';

const source = `import { x } from './x.ts';
type Kind = 'a' | 'b';
export function f(n: number, kind: Kind, done: boolean): string {
  if (n >= 2 && !done) return 'code';
  x.note('a sentence for people');
  return kind === 'a' ? \`\${n + 1}\` : 'none';
}
`;

async function findIn(text: string): Promise<Mutant[]> {
  const directory = await makeDirectory();
  const file = join(directory, 'f.ts');
  writeFileSync(file, text);
  writeFileSync(join(directory, 'tsconfig.json'), '{ "files": ["f.ts"] }');
  const api = new API({ cwd: directory });
  const [project] = api
    .updateSnapshot({ openProjects: [join(directory, 'tsconfig.json')] })
    .getProjects();
  const parsed = project?.program.getSourceFile(file);
  const mutants = parsed === undefined ? [] : findMutants(parsed);
  api.close();
  return mutants;
}

test('mutants are small, each at its location, and there are none where nothing can go wrong', async () => {
  const mutants = await findIn(source);
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

const query = `export const sql = (t: string, isFree: (job: string) => string): string =>
  \`update \${t} set token = null, ended = case when status = 'done' then 1 end
    where id = ? and token is not distinct from ? and due <= (select max(x.due) from \${t} x
      where x.on = 1 or x.late is null) and \${isFree('j')} \${t} returning id\`;
export const told = (name: string): string => \`\${name} and no other where it was\`;
`;

test('about SQL they make conditions true that narrow, and false that widen', async () => {
  const mutants = await findIn(query);
  expect(mutants.map(({ line, change }) => `${line} ${change}`)).toEqual([
    '2 token = null → token = token',
    "2 status = 'done' → true",
    "2 status = 'done' → false",
    '3 id = ? → true',
    '3 token is not distinct from ? → true',
    '3 due <= (select max(x.due) from ${t} x where x.on = 1 or x.la… → true',
    '3 <= → <',
    '3 max → min',
    '4 x.on = 1 → true',
    '4 x.late is null → false',
    "4 ${isFree('j')} → true",
    "4 'j' → 'mutated'",
  ]);
  const mutant = mutants.find(({ change }) => change === 'id = ? → true');
  if (mutant === undefined) throw new Error('there is none');
  // The value that is given to the parameter has to have its place.
  expect(applyMutant(query, mutant)).toContain('where (true or (id = ?)) and token');
});
