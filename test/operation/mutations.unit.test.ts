/** Every operation that changes the system uses a directive, or is listed here with its reason. */
import { expect, test } from 'vitest';
import { allDirectives, operations } from '../../src/operation/all.ts';

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
  'directive.request': 'requests any directive by its type',
  'pipeline.run': 'accepts work: the run records who requested it',
  'plugin.new': 'writes the files of a new plugin, which is not active',
  'plugin.run': 'accepts work: the job records who requested it',
  'plugin.test': 'runs a plugin outside of the service and stores nothing',
  'plugin.trigger': 'accepts work: the job records who requested it',
  'signal.emit': 'records a signal, with its sender',
  'signal.emit-many': 'records signals, with their sender',
  'tenant.token': 'requests token.create in the ledger of the tenant',
  'system.prove': 'works on a copy of the ledger, which it deletes at the end',
};

const writing = operations.filter(({ effect }) => effect !== 'read');
const types = new Set(allDirectives.map(({ type }) => type));

test.each(writing.map((operation) => [operation.name, operation] as const))(
  '%s changes nothing without a directive',
  (name, { directive }) => {
    if (directive === undefined) expect(others[name]).toMatch(/\w/);
    else expect([types.has(directive), others[name]]).toEqual([true, undefined]);
  },
);

test('every exception is an operation that changes something', () => {
  const names = new Set(writing.map(({ name }) => name));
  expect(Object.keys(others).filter((name) => !names.has(name))).toEqual([]);
});

test('directives that start work find its commands, so that tokens can deny them', () => {
  const starting = allDirectives.filter(({ startsWork }) => startsWork === true);
  expect(starting.length).toBeGreaterThan(5);
  expect(starting.filter((one) => !('findStarted' in one)).map(({ type }) => type)).toEqual([]);
});

test('operations with a directive are found', () => {
  expect(writing.filter(({ directive }) => directive !== undefined).length).toBeGreaterThan(30);
});
