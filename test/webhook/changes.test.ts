/** Changes of a webhook, and how its deliveries are verified afterwards. */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Engine } from '../../src/engine/engine.ts';
import { ask } from '../support/direct.ts';
import { databases, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';

const plugins = { p: { program: succeeds } };

function create(engine: Engine, id: string, settings: object, more: object = {}) {
  return ask(engine, 'webhook.create', { id, settings: { title: 'T', ...settings }, ...more });
}

describe.each(databases)('on %s', (database) => {
  test('the global token stays good for as long as it is kept', async () => {
    const place = await makePlace({ database, plugins });
    const { engine } = await place.start();
    const { result: made } = await create(engine, 'a', { plugin: 'p' });
    const rotation = { id: 'a', keep_old_ms: 3_600_000 };
    const { result } = await ask(engine, 'webhook.rotate', rotation);
    const good = async () => (await engine.webhookIntake.store.find('a'))?.secrets;
    expect(await good()).toEqual([result?.['secret'], made?.['global_token']]);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_600_001 });
    onTestFinished(() => void vi.useRealTimers());
    expect(await good()).toEqual([result?.['secret']]);
  });

  test('a webhook whose plugin is gone is switched off, edited and rotated, but not on', async () => {
    const steps = [{ id: 'look', uses: 'p.poll' }];
    const pipelines = [{ name: 'care', steps }];
    const place = await makePlace({ database, plugins, pipelines });
    const { engine } = await place.start();
    await create(engine, 'a', { plugin: 'p' });
    await create(engine, 'b', { pipeline: 'care' });
    await place.vary({ plugins: { p: { program: succeeds, settings: { enabled: false } } } });
    expect(await ask(engine, 'config.reload', {})).toMatchObject({ status: 'completed' });
    for (const [id, gone] of [
      ['a', 'PLUGIN_NOT_FOUND'],
      ['b', 'PIPELINE_NOT_FOUND'],
    ]) {
      const edit = (changes: object) => ask(engine, 'webhook.update', { id, changes });
      expect(await edit({ title: 'B' })).toMatchObject({ status: 'completed' });
      expect(await edit({ enabled: false })).toMatchObject({ status: 'completed' });
      expect(await ask(engine, 'webhook.rotate', { id })).toMatchObject({ status: 'completed' });
      for (const changes of [{ enabled: true }, { enabled: null }]) {
        await expect(edit(changes)).rejects.toMatchObject({ code: gone });
      }
    }
    const changes = { command: 'poll' };
    const retargeted = ask(engine, 'webhook.update', { id: 'a', changes });
    await expect(retargeted).rejects.toMatchObject({ code: 'PLUGIN_NOT_FOUND' });
  });

  test('a credential that can never verify is refused, and its value is not shown', async () => {
    const place = await makePlace({ database, plugins });
    const { engine } = await place.start();
    const set = (name: string, secret: string) =>
      ask(engine, 'credential.set', { name }, { secret });
    await set('plain', 'this is no base64!');
    await set('umlaut', 'a tökén of theirs');
    const standard = { plugin: 'p', auth_mode: 'standard-webhooks' };
    const refusal = (name: string, message: string) => ({
      code: 'INPUT_INVALID',
      message: `the credential ${name} ${message}`,
      place: 'credential',
    });
    const unreadable = refusal('plain', 'is not written in base64');
    const uncarried = refusal('umlaut', 'has characters that a header cannot contain');
    const add = (settings: object, credential: string) =>
      create(engine, 'a', settings, { credential });
    await expect(add(standard, 'plain')).rejects.toMatchObject(unreadable);
    await expect(add({ plugin: 'p' }, 'umlaut')).rejects.toMatchObject(uncarried);
    expect(await add({ plugin: 'p' }, 'plain')).toMatchObject({ status: 'completed' });
    const edit = (changes: object) => ask(engine, 'webhook.update', { id: 'a', changes });
    await expect(edit({ auth_mode: 'standard-webhooks' })).rejects.toMatchObject(unreadable);
    const rotated = (dryRun: boolean) =>
      ask(engine, 'webhook.rotate', { id: 'a', credential: 'umlaut' }, { dryRun });
    await expect(rotated(true)).rejects.toMatchObject(uncarried);
    await expect(rotated(false)).rejects.toMatchObject(uncarried);
    await expect(set('plain', 'ä value for later')).rejects.toMatchObject({ place: 'value' });
    expect(await edit({ enabled: false })).toMatchObject({ status: 'completed' });
    await set('plain', 'ä value for later');
    await expect(edit({ enabled: true })).rejects.toMatchObject({ place: 'credential' });
  });
});

test('a webhook with the global token explains how to get a secret of its own', async () => {
  const place = await makePlace({ plugins });
  const { engine } = await place.start();
  await create(engine, 'a', { plugin: 'p' });
  const edit = () => ask(engine, 'webhook.update', { id: 'a', changes: { auth_mode: 'github' } });
  await expect(edit()).rejects.toMatchObject({
    code: 'INPUT_INVALID',
    place: 'auth_mode',
    hint: expect.stringContaining('ductile webhook rotate a'),
  });
  await ask(engine, 'webhook.rotate', { id: 'a' });
  expect(await edit()).toMatchObject({ status: 'completed' });
});

test('a disabled plugin is distinguished from a missing one', async () => {
  const settings = { enabled: false };
  const place = await makePlace({ plugins: { ...plugins, off: { program: succeeds, settings } } });
  const { engine } = await place.start();
  await expect(create(engine, 'a', { plugin: 'off' })).rejects.toMatchObject({
    code: 'PLUGIN_NOT_FOUND',
    message: 'the plugin off is disabled',
    hint: expect.stringContaining('plugins.off.enabled'),
  });
  await expect(create(engine, 'a', { plugin: 'no' })).rejects.toThrow('there is no plugin no');
});
