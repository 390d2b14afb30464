/** The webhooks that packages bring: opened, kept, switched off and closed with their installation. */
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import type { DirectiveResult } from '../../src/directive/result.service.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { ask } from '../support/direct.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { manifest, listSignals } from '../support/packages.ts';
import { python } from '../support/plugin-program.ts';
import { deliverPush } from '../support/push.ts';

const worker = { program: python('note(payload.get("ref", "none")); ok()') };
const push = { id: 'push', title: 'Pushes', plugin: 'greeting', command: 'poll' };
const greeter = manifest({
  requires: [{ plugin: 'worker' }],
  plugins: { greeting: { uses: 'worker' } },
  webhooks: [{ ...push, auth_mode: 'github' }],
});
const ID = 'greeter-push';
const choice = { package_slug: 'greeter' };

function secretOf({ result }: DirectiveResult, id = ID): string {
  const { secrets } = result as { secrets?: Record<string, string> };
  return secrets?.[id] ?? '';
}

async function open(packages: Record<string, JsonObject>, more: JsonObject = {}) {
  const place = await makePlace({ plugins: { worker }, packages, ...more });
  return { place, ...(await place.start()) };
}

const install = (engine: Engine, params: JsonObject = choice) =>
  ask(engine, 'package.install', params);

describe.each(databases)('a webhook of a package on %s', (database) => {
  test('is created with its installation, and its secret is shown once', async () => {
    const { place, engine, ledger } = await open({ greeter }, { database });
    const plan = await ask(engine, 'package.install', choice, { dryRun: true });
    expect(plan.plan).toContain(`1 webhook will be added: ${ID}.`);
    expect(await ledger.webhooks.list()).toEqual([]);
    const answer = await install(engine);
    expect(answer).toMatchObject({ status: 'completed', result: { webhooks: [ID] } });
    const secret = secretOf(answer);
    expect(secret).toMatch(/^[0-9a-f]{64}$/);
    expect(await deliverPush(engine, ID, 'another', { ref: 'forged' })).toBe(401);
    expect(await deliverPush(engine, ID, secret, { ref: 'first' })).toBe(202);
    await eventually('it ran', async () => (await place.notes()).includes('first'));
    const again = await install(engine);
    expect(again).toMatchObject({ repeated: true });
    expect(secretOf(again)).toBe('');
    const [row] = await ledger.webhooks.list();
    expect(row).toMatchObject({ id: ID, createdBy: 'installation:greeter' });
    const onRecord = [await ledger.directives.list({ limit: 9 }), await listSignals(ledger), row];
    expect(JSON.stringify(onRecord)).not.toContain(secret);
    const brought = await ledger.installations.listProvisions(answer.id ?? '');
    expect(brought).toContainEqual(expect.objectContaining({ kind: 'webhook', name: ID }));
    expect(await ledger.check()).toEqual([]);
  });

  test('keeps its secret over an upgrade, is off while disabled, and gone in the end', async () => {
    const next = {
      ...greeter,
      version: '1.1.0',
      webhooks: [
        { ...push, title: 'All pushes', auth_mode: 'github' },
        { id: 'more', title: 'More', signal: 'more.came' },
      ],
    };
    const last = { ...greeter, version: '1.2.0', webhooks: [{ ...push, auth_mode: 'gitlab' }] };
    const packages = { greeter, next, last };
    const { engine, ledger } = await open(packages, { database });
    const secret = secretOf(await install(engine, { ...choice, version: '1.0.0' }));
    let sent = 0;
    const send = () => deliverPush(engine, ID, secret, { ref: `${(sent += 1)}` });
    const upgraded = await ask(engine, 'package.upgrade', { ...choice, version: '1.1.0' });
    expect(secretOf(upgraded)).toBe('');
    expect(secretOf(upgraded, 'greeter-more')).not.toBe('');
    expect((await ledger.webhooks.find(ID))?.settings).toContain('All pushes');
    expect(await send()).toBe(202);
    await ask(engine, 'package.disable', choice);
    expect(await send()).toBe(404);
    expect((await ask(engine, 'package.enable', choice)).status).toBe('completed');
    expect(await send()).toBe(202);
    // The signature scheme changed, so the secret changed, too.
    const other = await ask(engine, 'package.upgrade', { ...choice, version: '1.2.0' });
    expect(secretOf(other)).not.toBe('');
    expect((await ledger.webhooks.list()).map(({ id }) => id)).toEqual([ID]);
    expect(other.result).toMatchObject({ closed_webhooks: ['greeter-more'] });
    await ask(engine, 'package.uninstall', choice);
    expect(await ledger.webhooks.list()).toEqual([]);
    expect(await send()).toBe(404);
    expect(await ledger.check()).toEqual([]);
  });

  test('that cannot be opened refuses the whole installation', async () => {
    const cases: (readonly [JsonObject, RegExp])[] = [
      [{ ...push, plugin: 'absent' }, /webhook unfit-push targets absent/],
      [{ ...push, command: 'dance' }, /no command dance/],
      [{ id: 'push', title: 'Pushes', pipeline: 'else' }, /starts else, which is not its pipeline/],
      [{ ...push, token: 'abc' }, /is a secret, which a package must not contain/],
      [{ ...push, auth_mode: 'stripe' }, /is required for auth_mode stripe/],
      [{ ...push, credential: 'nowhere' }, /no credential nowhere/],
      [{ ...push, auth_mode: 'svix', credential: 'plain' }, /plain is not written in base64/],
      [{ ...push, id: 'Not Good' }, /webhooks\[0\]\.id/],
      [{ ...push, colour: 'red' }, /colour/],
    ];
    const packages = Object.fromEntries(
      cases.map(([webhook], index) => {
        const webhooks = [webhook];
        return [`unfit${index}`, { ...greeter, slug: 'unfit', version: `1.0.${index}`, webhooks }];
      }),
    );
    const { engine, ledger } = await open({ ...packages, greeter }, { database });
    await ask(engine, 'credential.set', { name: 'plain' }, { secret: 'no base64!' });
    for (const [index, [, why]] of cases.entries()) {
      const params = { package_slug: 'unfit', version: `1.0.${index}` };
      await expect(install(engine, params), String(why)).rejects.toThrow(why);
    }
    const settings = { title: 'Own', plugin: 'worker', command: 'poll' };
    await ask(engine, 'webhook.create', { id: ID, settings });
    await expect(install(engine)).rejects.toMatchObject({ code: 'WEBHOOK_EXISTS' });
    expect(await ledger.installations.list({ withEnded: true })).toEqual([]);
    expect((await ledger.webhooks.list()).map(({ id }) => id)).toEqual([ID]);
  });
});

test('a webhook of a package is its package’s to change, but for its secret', async () => {
  const withCredential = {
    ...greeter,
    config_schema: { type: 'object', properties: { kept: { type: 'string' } } },
    webhooks: [{ ...push, auth_mode: 'github', credential: '${config.kept}' }],
  };
  const { engine } = await open({ withCredential });
  await ask(engine, 'credential.set', { name: 'github' }, { secret: 'said by the sender' });
  const answer = await install(engine, { ...choice, config: { kept: 'credential:github' } });
  expect(secretOf(answer)).toBe('');
  expect(await deliverPush(engine, ID, 'said by the sender', { ref: 'a' })).toBe(202);
  const provided = { code: 'WEBHOOK_PROVIDED' };
  const changes = { title: 'Mine' };
  await expect(ask(engine, 'webhook.update', { id: ID, changes })).rejects.toMatchObject(provided);
  await expect(ask(engine, 'webhook.delete', { id: ID })).rejects.toMatchObject(provided);
  const { result } = await ask(engine, 'webhook.rotate', { id: ID });
  const { secret } = result as { secret: string };
  expect(await deliverPush(engine, ID, secret, { ref: 'b' })).toBe(202);
});
