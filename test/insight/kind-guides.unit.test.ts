/** Operators and agents find every kind of finding on the page that they start with. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { renderOnCall, renderSkills } from '../../src/cli/skills.ts';
import { kindGuides } from '../../src/insight/kind-guides.ts';
import { incidentKinds } from '../../src/insight/types.ts';

const directory = join(import.meta.dirname, '../../src/insight');

/** Kinds are written as `kind: 'run_halted'`, or as a constant that is used so. */
function findKinds(): Set<string> {
  const texts = globSync(['check*.ts', 'finding.ts', 'findings/**/*.ts'], {
    cwd: directory,
  }).map((file) => readFileSync(join(directory, file), 'utf8'));
  const kinds = new Set<string>(incidentKinds);
  for (const text of texts) {
    for (const [, literal, name] of text.matchAll(/\bkind: (?:'([a-z_]+)'|([A-Z][A-Z_]+)\b)/g)) {
      const [, value] =
        name === undefined
          ? []
          : (new RegExp(`\\b${name} = '([a-z_]+)'`).exec(texts.join('\n')) ?? []);
      const kind = literal ?? value;
      if (kind !== undefined) kinds.add(kind);
    }
  }
  return kinds;
}

test('every kind of finding and incident is explained in src/insight/kind-guides.ts, and no other', () => {
  const kinds = findKinds();
  expect(kinds).toContain('check_failed');
  expect(Object.keys(kindGuides)).toEqual([...kinds].toSorted());
});

test('the page starts with doctor, and lists every kind with its meaning and a command', () => {
  const page = renderOnCall();
  expect(page.indexOf('ductile doctor')).toBeLessThan(200);
  for (const [kind, { meaning, command }] of Object.entries(kindGuides)) {
    expect(page).toContain(`| \`${kind}\` | ${meaning} | \`${command}\` |`);
    const [, first, second] = command.split(' ');
    const isCommand = commands.some(({ noun, action, also = [], alias }) =>
      alias?.name === first ? true : noun === first && [action, ...also].includes(second ?? ''),
    );
    expect([command, isCommand || first === 'why']).toEqual([command, true]);
  }
});

test('skills export has the page', () => {
  expect(renderSkills(undefined).get('on-call.md')).toBe(renderOnCall());
});
