import { expect, test } from 'vitest';
import { nearest, suggest } from '../../src/base/text.ts';

const known = ['max_workers', 'log_level', 'plugins', 'routes'];

test.each([
  ['max_wrokers', 'max_workers'],
  ['maxWorkers', 'max_workers'],
  ['max-workers', 'max_workers'],
  ['log_lvl', 'log_level'],
  ['plugin', 'plugins'],
  ['ruotes', 'routes'],
])('%s is near %s', (word, expected) => {
  expect(nearest(word, known)).toBe(expected);
});

test('the beginning of a word is nearer than another word', () => {
  expect(nearest('sync', ['async', 'synchronous'])).toBe('synchronous');
  expect(nearest('sy', ['async', 'synchronous'])).toBeUndefined();
  expect(nearest('plug', ['plugin', 'plugins', 'plum'])).toBe('plum');
});

test('a word that has little in common with any other has no nearest word', () => {
  expect(nearest('pipelines', known)).toBeUndefined();
  expect(suggest('pipelines', known, 'keys')).toBe(
    'The keys are max_workers, log_level, plugins, routes.',
  );
});
