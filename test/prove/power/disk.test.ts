import { expect, test } from 'vitest';
import { makeRandom } from '../../support/crash/random.ts';
import type { DiskEntry } from './disk-journal.ts';
import { cutPower, replay, ways } from './disk.ts';

const nothing = Buffer.alloc(0);
const usual = { atMs: 0, file: 1, offset: 0, isDirectory: false, name: '', data: nothing };

function entry(kind: DiskEntry['kind'], more: Partial<DiskEntry> = {}): DiskEntry {
  return { ...usual, kind, ...more };
}

const made = entry('opened', { name: '/d/a', offset: 1 });
const syncNames = [
  entry('syncBegan', { name: '/d', isDirectory: true, offset: 9 }),
  entry('syncEnded', { name: '/d', isDirectory: true, offset: 9 }),
];
const began = entry('syncBegan', { offset: 1 });
const ended = entry('syncEnded', { offset: 1 });

function write(text: string, offset = 0, file = 1): DiskEntry {
  return entry('written', { data: Buffer.from(text), offset, file });
}

/** The possible content under a name, over many cuts of every kind. */
function findings(entries: readonly DiskEntry[], name = '/d/a'): Set<string | undefined> {
  const disk = replay(entries, entries.length);
  const found = new Set<string | undefined>();
  for (let seed = 0; seed < 50; seed += 1) {
    for (const way of ways)
      found.add(cutPower(disk, '/d', way, makeRandom(seed)).get(name)?.toString('latin1'));
  }
  return found;
}

test('synced data is there, however the power is cut', () => {
  expect(findings([made, ...syncNames, write('old'), began, ended])).toEqual(new Set(['old']));
});

test('data that was not synced is there or not, and may be torn', () => {
  const found = findings([made, ...syncNames, write('old'), began, ended, write('new')]);
  expect(found).toContain('old');
  expect(found).toContain('new');
  expect(found).toContain('nld');
});

test('data that is written during a sync is not a part of it', () => {
  const found = findings([made, ...syncNames, write('old'), began, write('new'), ended]);
  expect(found).toContain('old');
});

test('a sync that is not over has promised nothing', () => {
  expect(findings([made, ...syncNames, write('old'), began])).toContain('');
});

test('a later write may be there without an earlier one', () => {
  const page = 'a'.repeat(512);
  const found = findings([made, ...syncNames, write(page), write('late', 512)]);
  expect(found).toContain(`${'\0'.repeat(512)}late`);
});

test('a file without a name that was synced may be gone, whatever was synced in it', () => {
  expect(findings([made, write('old'), began, ended])).toEqual(new Set([undefined, 'old']));
});

test('a name that was given to another file has either of them', () => {
  const other = [
    entry('opened', { name: '/d/b', offset: 1, file: 2 }),
    write('new', 0, 2),
    entry('syncBegan', { file: 2, offset: 2 }),
    entry('syncEnded', { file: 2, offset: 2 }),
    entry('renamed', { name: '/d/b', data: Buffer.from('/d/a') }),
  ];
  const found = findings([made, write('old'), began, ended, ...syncNames, ...other]);
  expect(found).toEqual(new Set(['old', 'new']));
});

test('a file that was cut short and not synced may have its old length', () => {
  const short = entry('truncated', { offset: 1 });
  const found = findings([made, ...syncNames, write('old'), began, ended, short]);
  expect(found).toEqual(new Set(['old', 'o']));
});
