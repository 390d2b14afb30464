/** The rules of tidy.test.ts find what they are there for: each is shown a planted fault. */
import { describe, expect, test } from 'vitest';
import { readFacts } from './facts.ts';
import { findFileFaults, findInexact, findUnexplained, findUnmatched } from './file-rules.ts';
import { findLayerFaults } from './layers.ts';
import { countAll, findRaised, lowerBaseline } from './ratchet.ts';
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
    ['src/webhook/a.ts', "import { createHmac } from 'node:crypto';"],
    ['src/webhook/a.sql.ts', "import { b } from '../ledger/dialect.ts';"],
    ['src/job/a.service.ts', "import { b } from '../insight/b.ts';"],
    ['src/job/a.service.ts', "import type { Ledger } from '../ledger/ledger.ts';"],
    ['src/job/a.operations.ts', "import { b } from '../tenant/b.service.ts';"],
    ['src/access/a.service.ts', "import { b } from '../directive/b.service.ts';"],
    ['src/directive/a.service.ts', "import { b } from '../access/b.ts';"],
    ['src/plugin/a.operations.ts', "import { b } from '../operation/b.ts';"],
    ['src/ledger/open.ts', "import { b } from '../job/b.sql.ts';"],
    ['src/ledger/sqlite/a.ts', "import { DatabaseSync } from 'node:sqlite';"],
    ['src/ledger/a.ts', "import pg from 'pg';"],
    ['src/cli/a.ts', "import { b } from '../job/view.ts';"],
    ['src/job/view.ts', "import { b } from '../cli/print.ts';"],
    ['src/main.ts', "const app = await import('./app/server.ts');"],
    ['web/job/a.tsx', "import type { B } from '../../src/job/operations.ts';"],
    ['web/job/a.tsx', "import { B } from '../ui/b.tsx';"],
    ['web/job/a.tsx', "import { useState } from 'preact/hooks';"],
    ['web/api/http-routes.ts', "import { b } from '../../src/operation/b.ts';"],
    ['src/app/extras.ts', "const { b } = await import('../../extras/prove/b.ts');"],
    ['extras/prove/a.ts', "import { b } from '../../src/app/server.ts';"],
    ['extras/watch/a.ts', "import { b } from '../../src/cli/print.ts';"],
    ['extras/workshop/a.ts', "import { b } from './b.ts';"],
    ['src/cli/version.ts', "import manifest from '../../package.json' with { type: 'json' };"],
  ])('allows %s to contain %s', (path, text) => {
    expect(judgeTree({ [path]: text })).toEqual([]);
  });

  test.each([
    ['src/base/a.ts', "import { b } from '../job/b.ts';", "can't import a pure file"],
    ['src/base/a.ts', "import type { B } from '../engine/b.ts';", "can't import a engine file"],
    ['src/base/a.ts', "type B = import('../engine/b.ts').B;", "can't import a engine file"],
    ['src/base/a.ts', "export * from '../config/b.ts';", "can't import a config file"],
    ['src/engine/a.ts', "const b = await import('../http/b.ts');", "can't import a surface file"],
    ['src/app/a.ts', "import '../main.ts';", "can't import a main file"],
    ['src/job/a.ts', "import { b } from './b.sql.ts';", "can't import a sql file"],
    ['src/job/a.ts', "import type { B } from './b.service.ts';", "can't import a service file"],
    ['src/job/a.sql.ts', "import { b } from './b.service.ts';", "can't import a service file"],
    ['src/job/a.sql.ts', "import { b } from '../ledger/ledger.ts';", "can't import a ledger file"],
    ['src/job/a.service.ts', "import { b } from './operations.ts';", 'a operations file'],
    ['src/job/operations.ts', "import { b } from './view.ts';", "can't import a surface file"],
    ['src/insight/why/a.ts', "import { b } from '../../cli/b.ts';", 'a surface file'],
    ['src/insight/findings/a.ts', "import { b } from '../operations.ts';", 'a operations file'],
    ['src/job/a.ts', "import { b } from '../schedule/b.ts';", "schedule isn't before job"],
    ['src/job/a.sql.ts', "import { b } from '../signal/b.sql.ts';", "signal isn't before job"],
    ['src/job/a.service.ts', "import { b } from '../tenant/b.service.ts';", "isn't before job"],
    ['src/directive/a.ts', "import { b } from '../access/b.ts';", "isn't before directive"],
    ['src/access/a.service.ts', "import { b } from '../webhook/b.service.ts';", 'before access'],
    ['src/operation/a.ts', "import { b } from '../directive/operations.ts';", 'a operations file'],
    ['src/schedule/a.ts', "import { b } from '../pipeline/b.ts';", "isn't before schedule"],
    ['src/plugin/a.ts', "import { b } from '../ledger/b.ts';", "ledger isn't before plugin"],
    ['src/http/a.ts', "import { b } from '../cli/b.ts';", 'do not know each other'],
    ['src/http/a.ts', "import { b } from '../job/view.ts';", 'do not know each other'],
    ['src/http/a.ts', "import { b } from '../engine/b.ts';", 'uses operations only'],
    ['src/mcp/a.ts', "import type { B } from '../ledger/b.ts';", 'uses operations only'],
    ['src/cli/a.ts', "import { b } from '../job/b.service.ts';", 'uses operations only'],
    ['src/pipeline/a.ts', "import { readFile } from 'node:fs/promises';", 'no input or output'],
    ['src/job/a.sql.ts', "import { readFile } from 'node:fs/promises';", 'no input or output'],
    ['src/engine/a.ts', "import { DatabaseSync } from 'node:sqlite';", 'only the ledger'],
    ['src/job/a.sql.ts', "import pg from 'pg';", 'only the ledger'],
    ['src/engine/a.ts', "import { b } from '../base/b.js';", 'end in .ts'],
    ['src/engine/a.ts', "import { b } from '../../test/b.ts';", 'outside of src'],
    ['src/app/a.ts', "await import('../../extras/prove/b.ts');", 'only src/app/extras.ts'],
    ['src/app/extras.ts', "import { b } from '../../extras/prove/b.ts';", 'on demand'],
    ['extras/watch/a.ts', "import { b } from '../prove/b.ts';", "can't import from prove"],
    ['extras/watch/a.ts', "import { b } from '../../src/ledger/b.ts';", "can't import from ledger"],
    ['extras/prove/a.ts', "import { b } from '../../tools/b.ts';", 'outside of src'],
    ['extras/other/a.ts', "import { b } from '../../src/base/b.ts';", 'no folder of the layout'],
    ['src/http/a.ts', "import { b } from '../../web/b.ts';", 'outside of src'],
    ['web/a.ts', "import { b } from '../src/job/operations.ts';", 'only the types'],
    ['web/a.ts', "import type { B } from '../src/engine/b.ts';", 'operations alone'],
    ['web/a.ts', "import { readFile } from 'node:fs';", 'no package but preact'],
    ['src/helpers/a.ts', "import { b } from '../base/b.ts';", 'no folder of the layout'],
    ['src/engine/a.ts', "import { b } from '../helpers/b.ts';", 'no folder of the layout'],
  ])('does not allow %s to contain %s', (path, text, reason) => {
    expect(judgeTree({ [path]: text })).toEqual([expect.stringContaining(reason)]);
  });

  test('knows its debts, and reports those that are paid', () => {
    const graph = new Map([
      ['src/job/a.ts', [{ specifier: '../schedule/b.ts', isType: false }]],
      ['src/job/b.ts', [{ specifier: '../base/c.ts', isType: false }]],
    ]);
    const known = 'src/job/a.ts → src/schedule/b.ts';
    expect(findLayerFaults(graph, [known])).toEqual([]);
    expect(findLayerFaults(graph, [known, 'src/job/b.ts → src/base/c.ts'])).toHaveLength(1);
    expect(findLayerFaults(graph, [known, 'src/job/x.ts → src/job/y.ts'])).toHaveLength(1);
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
});

describe('the rules for one file', () => {
  const verify = (path: string, text: string): string[] =>
    findFileFaults(path, readFacts({ path, text }));

  test.each([
    "const q = 'select id from job_queue where id = ?';",
    'const q = `\n  INSERT INTO job_queue (id) VALUES (${id})`;',
    'const q = `update ${table} set status = 1`;',
    "const q = 'delete from signals';",
    "const q = 'with due as (select 1) select * from due';",
    "const q = 'PRAGMA journal_mode = wal';",
  ])('finds SQL in %s', (text) => {
    expect(verify('src/engine/a.ts', text)).toEqual([expect.stringContaining('SQL outside')]);
    expect(verify('src/ledger/a.ts', text)).toEqual([]);
  });

  test('takes a sentence for a sentence', () => {
    expect(
      verify('src/cli/a.ts', "const hint = 'Select a job from the list, or update it.';"),
    ).toEqual([]);
  });

  test.each([
    'const a = process.env["A"];',
    'const a = process["env"];',
    "import { env } from 'node:process';",
  ])('finds a look at the environment in %s', (text) => {
    expect(verify('src/engine/a.ts', text)).toEqual([
      expect.stringContaining('reads the environment'),
    ]);
    expect(verify('src/cli/a.ts', text)).toEqual([]);
  });
});

describe('the rules for texts', () => {
  const reasonsOf = (path: string, text: string): string[] =>
    findTextFaults({ path, text }).map((fault) => fault.replace(/^[^ ]+ /, ''));

  // In halves, because this file is checked, too.
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

/** The counts above 0, without the sizes of src. */
function countTexts(tree: Readonly<Record<string, string>>): Record<string, number> {
  const files = Object.entries(tree).map(([path, text]) => ({ path, text }));
  return Object.fromEntries(
    Object.entries(countAll(files))
      .filter(([name, { value }]) => value > 0 && !/ of src$| in src$/.test(name))
      .map(([name, { value }]) => [name, value]),
  );
}

describe('the style counts', () => {
  const words = 'word '.repeat(31).trim();

  test.each([
    ['docs/a.md', 'A job goes on.', { 'banned words in docs': 1 }],
    ['docs/a.md', '- It is\n  told twice, and is told again.', { 'banned words in docs': 2 }],
    ['docs/a.md', '| a | under way |', { 'banned words in docs': 1 }],
    ['docs/a.md', `Short. ${words}.`, { 'sentences over 30 words in docs': 1 }],
    ['docs/a.md', 'It ends. What is late runs.', { 'openers in docs': 1 }],
    ['docs/a.md', '## Of jobs', { 'openers in docs': 1 }],
    ['src/a.ts', '// It is no job.', { 'banned words in comments': 1 }],
    ['src/a.ts', '/** Also when\n * nobody asks. */', { 'banned words in comments': 2 }],
    ['src/a.ts', `/**\n * ${words}. */`, { 'sentences over 30 words in comments': 1 }],
    [
      'src/a.ts',
      `// ${words.slice(0, 70)}\n// ${words.slice(70)}.`,
      { 'sentences over 30 words in comments': 1 },
    ],
    ['src/a.ts', '/** What is late. */\n/** Late jobs. */', { 'openers in comments': 50 }],
    ['src/a.ts', "const a = { summary: 'Put it in force.' };", { 'banned words in messages': 1 }],
    [
      'src/a.ts',
      "z.string().describe('the limit, unless told');",
      { 'banned words in messages': 1 },
    ],
    [
      'src/a.ts',
      "throw new JobError('A', `job ${id} goes on`);",
      { 'banned words in messages': 1 },
    ],
    ['src/a.ts', "const hint = 'who asks is answered';", { 'openers in messages': 1 }],
    ['src/a.ts', `const b = { hint: '${words}' };`, { 'sentences over 30 words in messages': 1 }],
    ['web/a.tsx', 'const a = <p>It goes on.</p>;', { 'banned words in dashboard': 1 }],
    ['web/a.tsx', "const a = 'What is late';", { 'openers in dashboard': 1 }],
    ['web/a.tsx', `const a = <p>${words}</p>;`, { 'sentences over 30 words in dashboard': 1 }],
    ['extras/a.ts', "// It goes on.\nconst hint = 'It is told.';", { 'banned words in extras': 2 }],
    ['test/a.test.ts', "test('of nothing', () => {});", { 'openers in titles': 1 }],
    ['test/a.test.ts', "test.each([1])('is told %s', () => {});", { 'banned words in titles': 1 }],
    ['test/a.test.ts', "describe.skipIf(a)('who waits', () => {});", { 'openers in titles': 1 }],
    ['test/a.test.ts', `test('${words}', () => {});`, { 'sentences over 30 words in titles': 1 }],
    ['src/a.ts', 'export interface Told {}\ntype Asked = 1;', { 'participles as type names': 2 }],
    ['src/a.ts', 'interface Unheard {}', { 'participles as type names': 1 }],
    ['src/a.ts', 'const hookId = 1;\nfunction f(aHook: 1) {}', { 'hook in names': 2 }],
    ['src/hooks.ts', 'const a = 1;', { 'hook in names': 1 }],
  ])('%s: %j', (path, text, found) => {
    expect(countTexts({ [path]: text })).toEqual(found);
  });

  test('find exported names that collide', () => {
    const tree = { 'src/a.ts': 'export type A = 1;', 'src/b.ts': 'const A = 1;\nexport { A };' };
    expect(countTexts(tree)).toEqual({ 'exported names that collide': 1 });
  });

  test('find bags of options and their callbacks', () => {
    const text = 'interface AOptions { onEnd: () => void }\ntype BParts = { readonly b: 1 };';
    const none = countTexts({ 'src/a.ts': 'interface AOptions {}' });
    expect(none).toEqual({ 'Options, Seams and Parts': 1 });
    expect(countTexts({ 'src/a.ts': text })).toEqual({
      'Options, Seams and Parts': 2,
      'callbacks in Options, Seams and Parts': 1,
    });
  });

  test.each([
    ['docs/a.md', 'There is no job. `is told`. It is no longer here. What is a job?'],
    ['docs/a.md', '```sh\necho nobody\n```\n'],
    ['docs/reference/a.md', 'Nobody is told.'],
    ['src/a.ts', "const a = '// nobody';\nconst b = /\\/\\*nobody/;\nconst c = `// ${'nobody'}`;"],
    ['src/a.ts', 'interface Feed {}\ntype WebhookSeed = 1;\nconst webhookId = 1;'],
    ['src/a.ts', '// A short one.\nfunction f(on: 1) {}\n// Another one.'],
    ['web/a.tsx', 'const a = <p class="what a class">Recent failures</p>;'],
  ])('%s: %j counts nothing', (path, text) => {
    expect(countTexts({ [path]: text })).toEqual({});
  });

  test('measure src', () => {
    const counts = countAll([
      { path: 'src/a/b.ts', text: 'const a = 1;\n' },
      { path: 'src/a/c.ts', text: 'const a = 1;\n\n\n' },
      { path: 'src/main.ts', text: '' },
    ]);
    expect(counts['files in src']?.value).toBe(3);
    expect(counts['files in the widest folder of src']?.value).toBe(2);
    expect(counts['lines in the longest file of src']?.value).toBe(3);
  });

  test('may fall and may not rise, except up to their goal', () => {
    const count = (value: number, goal: number) => ({ value, goal, found: [] });
    const counts = { a: count(5, 0), b: count(3, 0), c: count(9, 10), d: count(1, 0) };
    const baseline = { a: 4, b: 4, c: 8 };
    expect(findRaised(counts, baseline)).toEqual([
      'a: 5 (the baseline is 4)',
      'd: 1 (the baseline is 0)',
    ]);
    expect(lowerBaseline(counts, baseline)).toEqual({ a: 4, b: 3, c: 8, d: 1 });
  });
});

describe('patterns', () => {
  test('that match no file are found', () => {
    const paths = ['src/a.ts', 'src/b/x.ts'];
    expect(findUnmatched(['src/{a,b/{c,*}}.ts', 'src/**/x.ts'], paths)).toEqual(['src/b/c.ts']);
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
