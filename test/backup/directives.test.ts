/** Copies of ledgers are recorded as directives, in the ledger and in the copy. */
import { noRules } from '../../src/ledger/rules.ts';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openLedger } from '../../src/ledger/open.ts';
import { restoreLedger } from '../../src/ledger/restore.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { operations } from '../../src/operation/all.ts';
import { ownerOf } from '../../src/operation/context.ts';
import { makeDirectory } from '../support/directory.ts';
import { databases, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';

describe.each(databases)('a copy of %s', (database) => {
  test.each(['system.backup', 'system.export'])('by %s is on record', async (name) => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const instance = await place.start();
    const { engine, ledger } = instance;
    const operation = operations.find((one) => one.name === name);
    if (operation === undefined) throw new Error(`there is no ${name}`);
    const to = join(await makeDirectory(), 'copy');
    const context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' } as const;
    const plan = await invoke(operation, context, { to, dry_run: true });
    expect(plan['plan']).toEqual([
      expect.stringContaining(to),
      ...(plan['plan'] as string[]).slice(1),
    ]);
    expect(await ledger.directives.list({ limit: 9 })).toEqual([]);
    const answer = await invoke(operation, context, { to });
    const id = String(answer['directive_id']);
    expect(await ledger.directives.find(id)).toMatchObject({
      type: name,
      actor: 'cli:ann',
      status: 'completed',
      target: `system:${to}`,
    });
    // The copy exists, so in it the directive that made it has completed.
    const file = name === 'system.export' ? join(to, 'root.db') : to;
    const elsewhere = await makePlace({ plugins: { worker: { program: succeeds } } });
    await restoreLedger(file, elsewhere.config.state);
    const copied = await openLedger(elsewhere.config.state, noRules);
    const completed = {
      actor: 'cli:ann',
      status: 'completed',
      result: JSON.stringify({ path: to }),
    };
    expect(await copied.directives.find(id)).toMatchObject(completed);
    await copied.close();
    const other = await elsewhere.start();
    expect(await other.ledger.directives.find(id)).toMatchObject(completed);
    expect(await other.ledger.check()).toEqual([]);
  });
});

test.each(['system.backup', 'system.export'])(
  "%s is refused if the destination can't be written, and no caller waits for it",
  async (name) => {
    const place = await makePlace({ plugins: { worker: { program: succeeds } } });
    const { engine, ledger } = await place.start();
    const operation = operations.find((one) => one.name === name);
    if (operation === undefined) throw new Error(`there is no ${name}`);
    const context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' } as const;
    const directory = await makeDirectory();
    const file = join(directory, 'file');
    await writeFile(file, 'mine');
    for (const to of [file, directory, join(file, 'beneath')]) {
      for (const input of [{ to }, { to, dry_run: true }]) {
        await expect(invoke(operation, context, input)).rejects.toMatchObject({
          code: 'BACKUP_REFUSED',
          place: 'to',
          message: expect.stringContaining(directory),
        });
      }
    }
    expect(await ledger.directives.list({ limit: 9 })).toEqual([]);
  },
);

test('an export is made with the directories above it, into an empty one too', async () => {
  const place = await makePlace({ plugins: { worker: { program: succeeds } } });
  const { engine } = await place.start();
  const operation = operations.find((one) => one.name === 'system.export');
  if (operation === undefined) throw new Error('there is no export');
  const context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' } as const;
  const empty = join(await makeDirectory(), 'empty');
  await mkdir(empty);
  for (const to of [join(await makeDirectory(), 'a', 'b'), empty]) {
    const { ledgers } = await invoke(operation, context, { to });
    expect(ledgers).toEqual([expect.objectContaining({ tenant: null, file: 'root.db' })]);
  }
});
