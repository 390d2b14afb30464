/** Whatever changes the system does so by a directive, or is named here with its reason. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const directory = join(import.meta.dirname, '../../../src/operations');

/** What is written there is on record by itself, or is no part of the system. */
const others: Readonly<Record<string, string>> = {
  'config-edit.ts': 'writes files of the configuration; what is in force changes with a reload',
  'config-set.ts': 'the same',
  'config.ts': 'the same',
  'directive-decide.ts': 'is about a directive, which keeps who decided',
  'pipeline-run.ts': 'accepts work: the run keeps who asked for it',
  'plugin-make.ts': 'writes the files of a new plugin, which is not in force',
  'plugin-test.ts': 'runs a plugin beside the system, and keeps nothing',
  'prove.ts': 'works on a copy of the ledger, which is gone when it ends',
  'run.ts': 'accepts work: the job keeps who asked for it',
  'signal-emit.ts': 'records a fact: the signal keeps who reported it',
  'trigger.ts': 'accepts work: the job keeps who asked for it',
  'webhook-test.ts': 'delivers as a sender does: the delivery is on record',
};

const files = readdirSync(directory, { encoding: 'utf8', recursive: true });
const writing = files.filter((file) => {
  if (!file.endsWith('.ts')) return false;
  const text = readFileSync(join(directory, file), 'utf8');
  return file !== 'define.ts' && /effect: '(write|destroy)'/.test(text);
});

test.each(writing.filter((file) => others[file] === undefined))(
  '%s changes something by a directive',
  (file) => {
    const text = readFileSync(join(directory, file), 'utf8');
    expect(text).toMatch(/from '\.\/direct\.ts'/);
  },
);

test('nothing is named that writes nothing', () => {
  expect(Object.keys(others).filter((file) => !writing.includes(file))).toEqual([]);
});
