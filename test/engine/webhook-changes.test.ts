/** What may be changed about a webhook, and what its deliveries are verified with then. */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { ask } from '../support/direct.ts';
import { databases, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';

const plugins = { p: { program: succeeds } };

describe.each(databases)('on %s', (database) => {
  test('the global token stays good for as long as it is kept', async () => {
    const place = await makePlace({ database, plugins });
    const { engine } = await place.start();
    const settings = { title: 'A', plugin: 'p' };
    const { result: made } = await ask(engine, 'webhook.create', { id: 'a', settings });
    const rotation = { id: 'a', keep_old_ms: 3_600_000 };
    const { result } = await ask(engine, 'webhook.rotate', rotation);
    const good = async () => (await engine.hooks.store.find('a'))?.secrets;
    expect(await good()).toEqual([result?.['secret'], made?.['global_token']]);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_600_001 });
    onTestFinished(() => void vi.useRealTimers());
    expect(await good()).toEqual([result?.['secret']]);
  });
});
