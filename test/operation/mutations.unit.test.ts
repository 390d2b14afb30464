/** Every operation that changes the system uses a directive, or is listed here with its reason. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const directory = join(import.meta.dirname, '../../src');
const DIRECTIVE = /from '[^']*\/(request|define)-directive\.ts'/;

/** Their changes are recorded in another way, or are outside of the system. */
const others: Readonly<Record<string, string>> = {
  'config.backup': 'writes files of the configuration; a reload activates them',
  'config.init': 'the same',
  'config.lock': 'the same',
  'config.restore': 'the same',
  'config.set': 'the same',
  'config.unset': 'the same',
  'directive.approve': 'is about a directive, which records who decided',
  'directive.cancel': 'the same',
  'pipeline.run': 'accepts work: the run records who requested it',
  'plugin.new': 'writes the files of a new plugin, which is not active',
  'plugin.run': 'accepts work: the job records who requested it',
  'plugin.test': 'runs a plugin outside of the service and stores nothing',
  'plugin.trigger': 'accepts work: the job records who requested it',
  'signal.emit': 'records a signal, with its sender',
  'system.prove': 'works on a copy of the ledger, which it deletes at the end',
  'webhook.test': 'delivers as a sender does: the delivery is recorded',
};

const files = globSync('**/*.ts', { cwd: directory })
  .filter((file) => !file.startsWith(join('operation', 'define')))
  .map((file) => ({ file, text: readFileSync(join(directory, file), 'utf8') }))
  .map(({ file, text }) => ({ file, text, names: namesOfWriting(text) }))
  .filter(({ names }) => names.length > 0);

test.each(files.filter(({ text }) => !DIRECTIVE.test(text)))(
  '$file has no operation that changes something without a directive',
  ({ names }) => {
    expect(names.filter((name) => others[name] === undefined)).toEqual([]);
  },
);

test('every exception is an operation that changes something', () => {
  const writing = new Set(files.flatMap(({ names }) => names));
  expect(Object.keys(others).filter((name) => !writing.has(name))).toEqual([]);
});

test('operations with a directive are found', () => {
  expect(files.filter(({ text }) => DIRECTIVE.test(text)).length).toBeGreaterThan(5);
});

/** An effect follows the name of its operation. */
function namesOfWriting(text: string): string[] {
  return [...text.matchAll(/effect: '(?:write|destroy)'/g)].flatMap(({ index }) => {
    const [last] = [...text.slice(0, index).matchAll(/name: '([\w.]+)'/g)].slice(-1);
    return last?.[1] === undefined ? [] : [last[1]];
  });
}
