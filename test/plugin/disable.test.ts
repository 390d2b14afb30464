/** Plugins that are switched off while the system runs. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { overlayLedger } from '../../src/ledger/ledger.ts';
import { ask } from '../support/direct.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { notesJob } from '../support/plugin-program.ts';

describe.each(databases)('a plugin that is switched off on %s', (database) => {
  test('still accepts jobs, and starts them when it is on again', async () => {
    const place = await makePlace({
      database,
      plugins: { off: { program: notesJob }, on: { program: notesJob } },
    });
    const { engine, submit, run, ended, ledger } = await place.start();
    await ask(engine, 'plugin.disable', { plugin: 'off' });
    const waiting = await submit('off');
    const other = await run('on');
    expect(await place.notes()).toEqual([other.id]);
    expect((await ledger.jobs.find(waiting))?.status).toBe('queued');
    const plan = await ask(engine, 'plugin.disable', { plugin: 'off' }, { dryRun: true });
    expect(plan.plan.join()).toContain('already');
    await ask(engine, 'plugin.enable', { plugin: 'off' });
    expect((await ended(waiting)).status).toBe('succeeded');
  });

  test('stays off over a restart, and is off for other hosts', async () => {
    const place = await makePlace({ database, plugins: { off: { program: notesJob } } });
    const before = await place.start();
    await ask(before.engine, 'plugin.disable', { plugin: 'off' });
    await before.close();
    const { engine, submit, ended } = await place.start();
    const waiting = await submit('off');
    expect((await engine.waitFor(waiting, 100)).status).toBe('queued');
    await ask(engine, 'plugin.enable', { plugin: 'off' });
    expect((await ended(waiting)).status).toBe('succeeded');
  });
});

describe.each(databases)('a plugin that is being switched off on %s', (database) => {
  test('starts nothing that was accepted after the response, even by a claim in progress', async () => {
    const place = await makePlace({ database, plugins: { off: { program: notesJob } } });
    let held: Promise<void> | undefined;
    let letGo: () => void = () => undefined;
    let isClaiming = false;
    const { engine, submit } = await place.start({
      ledger: (real) =>
        overlayLedger(real, {
          jobs: {
            settle: async (closings, claim) => {
              if (
                held !== undefined &&
                claim?.plugins.some(({ name }) => name === 'off') === true
              ) {
                isClaiming = true;
                await held;
              }
              return await real.jobs.settle(closings, claim);
            },
          },
        }),
    });
    held = new Promise((resolve) => (letGo = resolve));
    await eventually('a claim is under way', () => isClaiming);
    let isAnswered = false;
    const answer = ask(engine, 'plugin.disable', { plugin: 'off' }).then(() => (isAnswered = true));
    await eventually('it is on record', async () => {
      const directives = await engine.ledger.directives.list({ limit: 1 });
      return directives.length > 0;
    });
    await sleep(50);
    expect(isAnswered).toBe(false);
    held = undefined;
    letGo();
    await answer;
    const waiting = await submit('off');
    expect((await engine.waitFor(waiting, 200)).status).toBe('queued');
  });
});
