/** Two that ask for the same at once. */
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { DuctileError } from '../../src/base/errors.ts';
import type { DirectiveResult } from '../../src/directive/result.service.ts';
import type { LedgerEngine } from '../../src/engine/ledger-engine.ts';
import { ask } from '../support/direct.ts';
import { databases, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';

/** Asks twice for what can be done once: both have looked for the other before either is done. */
async function askAtOnce(
  engine: LedgerEngine,
  where: 'plan' | 'prepare',
): Promise<{ readonly first: DirectiveResult; readonly second: DirectiveResult }> {
  const isThere = Promise.withResolvers<void>();
  const isDone = Promise.withResolvers<void>();
  let count = 0;
  const doOnce = async (): Promise<void> => {
    count += 1;
    if (count === 1) return await isThere.promise;
    isThere.resolve();
    await isDone.promise;
    throw new DuctileError('PACKAGE_INSTALLED', 'it is done');
  };
  engine.directives.registerDirective({
    type: 'test.once',
    summary: 'Do what can be done once.',
    scope: 'test:rw',
    params: z.strictObject({}),
    sameness: () => 'latest',
    target: () => '',
    async plan() {
      if (where === 'plan') await doOnce();
      return [];
    },
    async prepare() {
      if (where === 'prepare') await doOnce();
      return {};
    },
    execute: () => Promise.resolve({}),
  });
  const both = [ask(engine, 'test.once', {}), ask(engine, 'test.once', {})];
  const first = await Promise.race(both);
  isDone.resolve();
  const answers = await Promise.all(both);
  const second = answers.find((answer) => answer !== first);
  if (second === undefined) throw new Error('two were asked for');
  return { first, second };
}

describe.each(databases)('a directive whose double was done meanwhile on %s', (database) => {
  test.each(['plan', 'prepare'] as const)(
    'learns of it, and is not refused, when it comes to its %s',
    async (where) => {
      const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
      const { engine, ledger } = await place.start();
      const { first, second } = await askAtOnce(engine, where);
      expect(first).toMatchObject({ status: 'completed', repeated: false });
      expect(second).toEqual({ ...first, repeated: true });
      expect(await ledger.directives.list({ limit: 9 })).toHaveLength(1);
    },
  );
});
