/** The rules of tidy.test.ts find what they are there for: each is shown a planted fault. */
import { describe, expect, test } from 'vitest';
import { readFacts } from './facts.ts';
import { findHouseFaults, findInexact, findUnexplained } from './house.ts';
import { findLayerFaults } from './layers.ts';
import { findTextFaults } from './text.ts';

function judgeTree(tree: Readonly<Record<string, string>>): string[] {
  const files = Object.entries(tree).map(([path, text]) => ({ path, text }));
  return findLayerFaults(new Map(files.map((file) => [file.path, readFacts(file).imports])));
}

describe('the direction of imports', () => {
  test.each([
    ['src/engine/a.ts', "import { b } from '../ledger/b.ts';"],
    ['src/schedule/a.ts', "import { b } from '../job/b.ts';"],
    ['src/job/a.ts', "import type { Buffer } from 'node:buffer';"],
    ['src/webhook/a.ts', "import { b } from '../schedule/b.ts';"],
    ['src/webhook/a.ts', "import { createHmac } from 'node:crypto';"],
    ['src/ledger/a.ts', "import pg from 'pg';"],
    ['src/main.ts', "const app = await import('./app.ts');"],
    ['web/job/a.tsx', "import type { B } from '../../src/operations/b.ts';"],
    ['web/job/a.tsx', "import { B } from '../ui/b.tsx';"],
    ['web/job/a.tsx', "import { useState } from 'preact/hooks';"],
    ['web/api/places.ts', "import { b } from '../../src/operations/b.ts';"],
    ['src/cli/version.ts', "import manifest from '../../package.json' with { type: 'json' };"],
  ])('lets %s say %s', (path, text) => {
    expect(judgeTree({ [path]: text })).toEqual([]);
  });

  test.each([
    ['src/base/a.ts', "import { b } from '../job/b.ts';", 'further right'],
    ['src/base/a.ts', "import type { B } from '../engine/b.ts';", 'further right'],
    ['src/base/a.ts', "type B = import('../engine/b.ts').B;", 'further right'],
    ['src/base/a.ts', "export * from '../config/b.ts';", 'further right'],
    ['src/engine/a.ts', "const b = await import('../http/b.ts');", 'further right'],
    ['src/app.ts', "import './main.ts';", 'further right'],
    ['src/job/a.ts', "import { b } from '../schedule/b.ts';", 'do not know each other'],
    ['src/plugin/a.ts', "import { b } from '../ledger/b.ts';", 'do not know each other'],
    ['src/ledger/queries/a.ts', "import { b } from '../../plugin/b.ts';", 'do not know each other'],
    ['src/http/a.ts', "import { b } from '../cli/b.ts';", 'do not know each other'],
    ['src/http/a.ts', "import { b } from '../engine/b.ts';", 'never engine'],
    ['src/mcp/a.ts', "import type { B } from '../ledger/b.ts';", 'never ledger'],
    ['src/webhook/a.ts', "import { b } from '../pipeline/b.ts';", 'do not know each other'],
    ['src/pipeline/a.ts', "import { createHmac } from 'node:crypto';", 'is pure'],
    ['src/pipeline/a.ts', "import { readFile } from 'node:fs/promises';", 'is pure'],
    ['src/engine/a.ts', "import { DatabaseSync } from 'node:sqlite';", 'only the ledger'],
    ['src/engine/a.ts', "import { b } from '../base/b.js';", 'end in .ts'],
    ['src/engine/a.ts', "import { b } from '../../test/b.ts';", 'outside of src'],
    ['src/http/a.ts', "import { b } from '../../web/b.ts';", 'outside of src'],
    ['web/a.ts', "import { b } from '../src/operations/b.ts';", 'only the types'],
    ['web/a.ts', "import type { B } from '../src/engine/b.ts';", 'operations alone'],
    ['web/a.ts', "import { readFile } from 'node:fs';", 'no package but preact'],
    ['src/helpers/a.ts', "import { b } from '../base/b.ts';", 'no folder of the house'],
    ['src/engine/a.ts', "import { b } from '../helpers/b.ts';", 'no folder of the house'],
  ])('does not let %s say %s', (path, text, reason) => {
    expect(judgeTree({ [path]: text })).toEqual([expect.stringContaining(reason)]);
  });

  test('has no circle of files', () => {
    const faults = judgeTree({
      'src/engine/a.ts': "import './b.ts';",
      'src/engine/b.ts': "import './c.ts';",
      'src/engine/c.ts': "import './a.ts';",
    });
    expect(faults).toEqual([
      'cycle: src/engine/a.ts → src/engine/b.ts → src/engine/c.ts → src/engine/a.ts',
    ]);
  });

  test('has no circle of folders', () => {
    const faults = judgeTree({
      'src/job/a.ts': "import '../signal/a.ts';",
      'src/job/b.ts': '',
      'src/signal/a.ts': '',
      'src/signal/b.ts': "import '../job/b.ts';",
    });
    expect(faults).toEqual(['cycle: job → signal → job']);
  });
});

describe('what one file may do', () => {
  const judge = (path: string, text: string): string[] =>
    findHouseFaults(path, readFacts({ path, text }));

  test.each([
    "const q = 'select id from job_queue where id = ?';",
    'const q = `\n  INSERT INTO job_queue (id) VALUES (${id})`;',
    'const q = `update ${table} set status = 1`;',
    "const q = 'delete from signals';",
    "const q = 'with due as (select 1) select * from due';",
    "const q = 'PRAGMA journal_mode = wal';",
  ])('finds SQL in %s', (text) => {
    expect(judge('src/engine/a.ts', text)).toEqual([expect.stringContaining('SQL outside')]);
    expect(judge('src/ledger/a.ts', text)).toEqual([]);
  });

  test('takes a sentence for a sentence', () => {
    expect(
      judge('src/cli/a.ts', "const hint = 'Select a job from the list, or update it.';"),
    ).toEqual([]);
  });

  test.each([
    'const a = process.env["A"];',
    'const a = process["env"];',
    "import { env } from 'node:process';",
  ])('finds a look at the environment in %s', (text) => {
    expect(judge('src/engine/a.ts', text)).toEqual([
      expect.stringContaining('reads the environment'),
    ]);
    expect(judge('src/cli/a.ts', text)).toEqual([]);
  });
});

describe('what may stand in a text', () => {
  const reasonsOf = (path: string, text: string): string[] =>
    findTextFaults({ path, text }).map((fault) => fault.replace(/^[^ ]+ /, ''));

  // In halves, because this very file is judged too.
  test.each([
    ['src/a.ts', ['// TO', 'DO later'].join(''), 'unfinished work'],
    ['test/a.test.ts', ['test.on', "ly('x', () => {})"].join(''), 'a test left out'],
    ['test/a.test.ts', ['describe.sk', "ip('x', () => {})"].join(''), 'a test left out'],
    ['src/a.ts', ['// @ts-ig', 'nore'].join(''), 'a silenced type error'],
    ['src/a.ts', ['const a = b as a', 'ny;'].join(''), 'a silenced type error'],
    ['docs/a.md', `see ${['', 'home', 'me', 'file'].join('/')}`, 'a path of somebody’s machine'],
    [
      'package-lock.json',
      `https://${['registry', 'npmjs', 'org'].join('.')}/x`,
      'the address of a package registry',
    ],
    ['src/a.ts', 'x'.repeat(121), 'more than 120 columns'],
    ['src/a.ts', 'x\n'.repeat(401), 'more than 400 lines'],
    ['native/a.c', 'x\n'.repeat(901), 'more than 900 lines'],
    ['ductile', 'x\n'.repeat(401), 'more than 400 lines'],
  ])('%s: %j', (path, text, reason) => {
    expect(reasonsOf(path, text)).toEqual([reason]);
  });

  test.each([
    ['src/a.ts', 'x\n'.repeat(400)],
    ['native/a.c', 'x\n'.repeat(900)],
    ['docs/a.md', 'x'.repeat(500)],
    ['src/a.ts', "if (outcome === policy.skip) return '/var/lib/ductile/work/';"],
  ])('%s passes', (path, text) => {
    expect(reasonsOf(path, text)).toEqual([]);
  });
});

describe('dependencies', () => {
  test('with a range are found', () => {
    expect(findInexact({ a: '1.2.3', b: '^1.2.3', c: '1.2.x', d: '1.2.3-beta.1' })).toEqual([
      'b: ^1.2.3 is not one exact version',
      'c: 1.2.x is not one exact version',
    ]);
  });

  test('without a reason, or explained in vain, are found', () => {
    const page = '| `a` | why | else |\n| `b` | | else |\n| `d` | why | else |\n';
    expect(findUnexplained(['a', 'b', 'c'], page)).toEqual([
      'b has no reason in docs/internals/dependencies.md',
      'c has no reason in docs/internals/dependencies.md',
      'd is explained but not used',
    ]);
  });
});
