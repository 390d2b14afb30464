/** Operators and agents find every kind of finding on the page that they start with. */
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { renderOnCall, renderSkills } from '../../src/cli/skills.ts';
import { isObject } from '../../src/base/json.ts';
import { findingGuides } from '../../src/insight/doctor.operations.ts';
import { allFindings, incidentKinds } from '../../src/insight/findings/all.ts';

const directory = join(import.meta.dirname, '../../src/insight/findings');

test('every definition is in the list of findings, and no kind is defined twice', async () => {
  const files = globSync('*.ts', { cwd: directory });
  const modules = await Promise.all(
    files.map(async (file) => (await import(join(directory, file))) as object),
  );
  const defined = modules
    .flatMap((module) => Object.values(module) as unknown[])
    .flatMap((value) => (isObject(value) && 'describe' in value ? [value['kind']] : []));
  const listed = allFindings.map(({ kind }) => kind);
  expect(listed).toContain('check_failed');
  expect(new Set(listed).size).toBe(listed.length);
  expect(new Set(defined)).toEqual(new Set(listed));
  expect(defined).toHaveLength(listed.length);
  expect(listed).toEqual(expect.arrayContaining([...incidentKinds]));
});

test('the page starts with doctor, and lists every kind with its meaning and a command', () => {
  const page = renderOnCall();
  expect(page.indexOf('ductile doctor')).toBeLessThan(200);
  for (const { kind, condition, command } of findingGuides) {
    expect(page).toContain(`| \`${kind}\` | ${condition} | \`${command}\` |`);
    const [, first, second] = command.split(' ');
    const isCommand = commands.some(({ noun, action, alias }) =>
      alias?.name === first ? true : noun === first && action === second,
    );
    expect([command, isCommand || first === 'why']).toEqual([command, true]);
  }
});

test('skills export has the page', () => {
  expect(renderSkills(undefined).get('on-call.md')).toBe(renderOnCall());
});
