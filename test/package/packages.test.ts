/** Packages that are installed, changed and uninstalled in a running engine. */
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import type { DirectiveResult } from '../../src/directive/result.service.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { ask } from '../support/direct.ts';
import {
  databases,
  eventually,
  makePlace,
  type Database,
  type Setup,
} from '../support/instance.ts';
import { manifest, listSignalTypes } from '../support/packages.ts';
import { python } from '../support/plugin-program.ts';

const worker = {
  program: python('note(request["instance"] + " " + request["config"]["word"]); ok()'),
  manifest: 'config_keys: { operator: [programs] }',
  settings: { config: { word: 'own' } },
};

const greeter = manifest({
  config_schema: {
    type: 'object',
    required: ['word'],
    properties: { word: { type: 'string' }, every: { type: 'string', default: '1h' } },
    additionalProperties: false,
  },
  requires: [{ plugin: 'worker', commands: ['poll'] }],
  plugins: {
    greeting: {
      uses: 'worker',
      config: { word: '${config.word}' },
      schedules: [{ id: 'often', every: '${config.every}' }],
    },
  },
  routes: [{ event_type: 'greet.now', to: 'greeting.poll' }],
});

const next = { ...greeter, version: '1.10.0' };
const config = { word: 'hello' };
const choice = { package_slug: 'greeter', config };

function open(database: Database, more: Partial<Setup> = {}) {
  const packages = { greeter };
  return makePlace({ database, plugins: { worker }, packages, ...more });
}

function install(engine: Engine, params: JsonObject = choice): Promise<DirectiveResult> {
  return ask(engine, 'package.install', params);
}

describe.each(databases)('packages on %s', (database) => {
  test('P-01 an installed package is active at once, with its signals in order', async () => {
    const place = await open(database);
    const { engine, ledger, run } = await place.start();
    const answer = await install(engine);
    expect(answer).toMatchObject({ status: 'completed', error: null });
    expect(answer.result).toMatchObject({
      installation_id: answer.id,
      version: '1.0.0',
      provisioned: { plugin: 1, schedule: 1, route: 1 },
    });
    expect(await listSignalTypes(ledger)).toEqual([
      'package.install.requested',
      'directive.requested',
      'directive.started',
      'package.install.started',
      'package.install.completed',
      'directive.completed',
    ]);
    expect(await run('greeting')).toMatchObject({ status: 'succeeded' });
    expect(await place.notes()).toContain('greeting hello');
    const [row] = await ledger.installations.list({});
    expect(row).toMatchObject({ slug: 'greeter', status: 'installed', lastError: null });
    const brought = await ledger.installations.listProvisions(answer.id ?? '');
    expect(brought.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      'plugin greeting',
      'route greeter/1 greet.now → greeting.poll',
      'schedule greeting/often',
    ]);
  });

  test('P-02 P-03 a double click is one installation and one directive', async () => {
    const { engine, ledger } = await (await open(database)).start();
    const [first, second] = await Promise.all([install(engine), install(engine)]);
    const third = await install(engine);
    expect(new Set([first.id, second.id, third.id]).size).toBe(1);
    expect([first, second, third].map(({ status }) => status)).toEqual(Array(3).fill('completed'));
    expect(await ledger.installations.list({ withEnded: true })).toHaveLength(1);
    expect(await ledger.directives.list({ limit: 10 })).toHaveLength(1);
    const brought = await ledger.installations.listProvisions(first.id ?? '');
    expect(brought.map(({ kind }) => kind).toSorted()).toEqual(['plugin', 'route', 'schedule']);
    expect(
      (await listSignalTypes(ledger)).filter((type) => type.startsWith('package.')),
    ).toHaveLength(3);
  });

  test('P-04 what is refused has written nothing', async () => {
    const wrong = {
      other: manifest({ slug: 'other', requires: [{ plugin: 'wroker' }] }),
      commandless: manifest({
        slug: 'commandless',
        requires: [{ plugin: 'worker', commands: ['dance'] }],
        plugins: { dancing: { uses: 'worker', config: { word: 'w' } } },
      }),
      newer: manifest({ slug: 'newer', requires: [{ plugin: 'worker', version: '>=2.0.0' }] }),
      sly: manifest({ slug: 'sly', plugins: { slyly: { uses: 'worker' } } }),
      taken: manifest({
        slug: 'taken',
        requires: [{ plugin: 'worker' }],
        plugins: { worker: { uses: 'worker' } },
      }),
      coder: manifest({
        slug: 'coder',
        requires: [{ plugin: 'worker' }],
        plugins: { coding: { uses: 'worker', config: { word: 'w', programs: ['rm'] } } },
      }),
      router: manifest({ slug: 'router', routes: [{ event_type: 'a.b', to: 'worker' }] }),
      deep: manifest({
        slug: 'deep',
        pipelines: [{ name: 'deep', steps: [{ split: [{ id: 'in', uses: 'worker.poll' }] }] }],
      }),
      halting: manifest({
        slug: 'halting',
        pipelines: [{ name: 'halts', on_halt: 'worker.poll', steps: [{ wait: '1m' }] }],
      }),
      astray: manifest({ slug: 'astray', routes: [{ event_type: 'a.b', to: 'nobody' }] }),
      busy: manifest({
        slug: 'busy',
        handlers: [{ on: 'a.b', directive: 'job.retry', params: { job_id: '{payload.id}' } }],
      }),
    };
    const place = await open(database, { packages: { greeter, ...wrong } });
    const { engine, ledger } = await place.start();
    const refuse = async (params: JsonObject): Promise<string> => {
      const error: unknown = await install(engine, params).catch((thrown: unknown) => thrown);
      return error instanceof Error
        ? `${'code' in error ? String(error.code) : ''} ${error.message}`
        : '';
    };
    const slugs = Object.keys(wrong);
    const results = await Promise.all(slugs.map((slug) => refuse({ package_slug: slug })));
    expect(results).toEqual([
      'PACKAGE_REFUSED it requires the plugin wroker, which is not in a plugin root',
      'PACKAGE_REFUSED it requires the command dance, which the plugin worker does not have',
      'PACKAGE_REFUSED it requires worker >=2.0.0, but the plugin is 1.0.0',
      'PACKAGE_REFUSED its plugin slyly uses worker, which the package does not require',
      'PACKAGE_REFUSED its plugin worker has the name of a plugin in a plugin root',
      'PACKAGE_REFUSED its plugin coding sets programs, which only the installer may set',
      'PACKAGE_REFUSED its route of a.b targets worker, which the package does not require',
      'PACKAGE_REFUSED the step in of its pipeline deep targets worker, which the package does not require',
      'PACKAGE_REFUSED on_halt of its pipeline halts targets worker, which the package does not require',
      'PACKAGE_REFUSED routes[0].to names nobody, which is not a plugin',
      expect.stringMatching(/^PACKAGE_REFUSED handlers busy\/1 requests job\.retry/),
    ]);
    expect(await refuse({ package_slug: 'gone' })).toBe(
      'PACKAGE_NOT_FOUND there is no package gone',
    );
    expect(await refuse({ ...choice, version: '9.0.0' })).toBe(
      'PACKAGE_NOT_FOUND there is no version 9.0.0 of greeter',
    );
    expect(await refuse({ package_slug: 'greeter' })).toBe('INPUT_INVALID config.word is missing');
    expect(await refuse({ ...choice, config: { word: 1 } })).toBe(
      'INPUT_INVALID config.word must be string',
    );
    expect(await refuse({ ...choice, config: { word: `ghp_${'a'.repeat(36)}` } })).toMatch(
      'INPUT_INVALID config.word looks like a token or password',
    );
    expect(await refuse({ ...choice, config: { word: 'a ${my-var}' } })).toBe(
      'INPUT_INVALID config.word has a `${`, and placeholders are not replaced in an installation',
    );
    expect(await refuse({ ...choice, config: { word: 'credential:absent' } })).toBe(
      'CREDENTIAL_NOT_FOUND there is no credential absent',
    );
    expect(await ledger.installations.list({ withEnded: true })).toEqual([]);
    expect(await ledger.directives.list({ limit: 10 })).toEqual([]);
    expect(await ledger.signals.list({ limit: 10 })).toEqual([]);
  });

  test('P-06 P-07 what is uninstalled is gone, once, and can be installed again', async () => {
    const place = await open(database);
    const { engine, ledger } = await place.start();
    const first = await install(engine);
    const gone = await ask(engine, 'package.uninstall', { package_slug: 'greeter' });
    expect(gone).toMatchObject({ status: 'completed' });
    expect(engine.catalog.plugins.has('greeting')).toBe(false);
    const again = await ask(engine, 'package.uninstall', { package_slug: 'greeter' });
    expect(again).toMatchObject({ id: gone.id, repeated: true });
    expect(
      (await ledger.installations.listProvisions(first.id ?? '')).every(
        ({ removedAt }) => removedAt !== null,
      ),
    ).toBe(true);
    const second = await install(engine);
    expect(second).toMatchObject({ status: 'completed', repeated: false });
    expect(second.id).not.toBe(first.id);
    expect(engine.catalog.plugins.has('greeting')).toBe(true);
    const rows = await ledger.installations.list({ withEnded: true });
    expect(rows.map(({ status }) => status)).toEqual(['uninstalled', 'installed']);
    expect(await ledger.check()).toEqual([]);
  });

  test('P-08 disabled and enabled it is as it was, also after a restart', async () => {
    const place = await open(database);
    const { engine, close } = await place.start();
    await install(engine);
    await ask(engine, 'package.disable', { package_slug: 'greeter' });
    expect(engine.catalog.plugins.has('greeting')).toBe(false);
    await close();
    const later = await place.start();
    expect(later.engine.catalog.plugins.has('greeting')).toBe(false);
    await ask(later.engine, 'package.enable', { package_slug: 'greeter' });
    expect(await later.run('greeting')).toMatchObject({ status: 'succeeded' });
    await later.close();
    const last = await place.start();
    expect(await last.run('greeting')).toMatchObject({ status: 'succeeded' });
  });

  test('the newest version is the newest by its numbers; back only when that is meant', async () => {
    const trial = { ...greeter, version: '2.0.0-rc.1' };
    const packages = { greeter, next: { ...greeter, version: '1.9.0' }, last: next, trial };
    const { engine, ledger } = await (await open(database, { packages })).start();
    await install(engine, { ...choice, version: '1.9.0' });
    const up = await ask(engine, 'package.upgrade', { package_slug: 'greeter' });
    expect(up.result).toMatchObject({ version: '1.10.0', revision: 2 });
    const again = await ask(engine, 'package.upgrade', { package_slug: 'greeter' });
    expect(again).toMatchObject({ id: up.id, repeated: true });
    const back = { package_slug: 'greeter', version: '1.0.0' };
    await expect(ask(engine, 'package.upgrade', back)).rejects.toThrow(
      '1.0.0 is older than 1.10.0',
    );
    const meant = await ask(engine, 'package.upgrade', { ...back, allow_downgrade: true });
    expect(meant.result).toMatchObject({ version: '1.0.0', revision: 3 });
    const other = { package_slug: 'greeter', version: '1.0.0', config: { word: 'bye' } };
    await ask(engine, 'package.upgrade', other);
    expect(engine.config.plugins['greeting']?.config).toEqual({ word: 'bye' });
    const [row] = await ledger.installations.list({});
    expect(row).toMatchObject({ version: '1.0.0', revision: 4, status: 'installed' });
    const types = await listSignalTypes(ledger);
    expect(types.filter((type) => type === 'package.upgrade.completed')).toHaveLength(3);
  });

  test('two packages with the same names do not both get in, however they come', async () => {
    const twin = { ...greeter, slug: 'twin' };
    const place = await open(database, { packages: { greeter, twin } });
    const { engine, ledger } = await place.start();
    const both = await Promise.allSettled([
      install(engine),
      install(engine, { ...choice, package_slug: 'twin' }),
    ]);
    const done = both.filter(
      (one) => one.status === 'fulfilled' && one.value.status === 'completed',
    );
    expect(done).toHaveLength(1);
    expect(await ledger.installations.list({})).toHaveLength(1);
    const [first] = await ledger.installations.list({});
    const other = first?.slug === 'twin' ? 'greeter' : 'twin';
    await expect(install(engine, { ...choice, package_slug: other })).rejects.toThrow(
      `its plugin greeting has the name of one of the installation ${first?.slug}`,
    );
  });

  test('a plan says what would be, and writes nothing', async () => {
    const { engine, ledger } = await (await open(database)).start();
    const { plan, id } = await ask(engine, 'package.install', choice, { dryRun: true });
    expect(id).toBeNull();
    expect(plan).toEqual([
      'greeter 1.0.0 (Greets) will be installed.',
      '1 plugin will be added: greeting.',
      '1 schedule will be added: greeting/often.',
      '1 route will be added: greeter/1 greet.now → greeting.poll.',
    ]);
    expect(await ledger.installations.list({})).toEqual([]);
    expect(await ledger.directives.list({ limit: 1 })).toEqual([]);
  });

  test('a package that no longer fits is left out with a report, and is back when it fits', async () => {
    const place = await open(database);
    const { engine, close } = await place.start();
    await install(engine);
    await close();
    const crowded = await place.vary({
      aliases: { greeting: { uses: 'worker', config: { word: 'x' } } },
    });
    const second = await crowded.start();
    expect(second.engine.refused).toMatchObject([{ slug: 'greeter' }]);
    expect(await second.ledger.installations.list({})).toMatchObject([
      {
        status: 'failed',
        lastError: expect.stringContaining('plugins.greeting is already used'),
      },
    ]);
    expect(await second.run('greeting')).toMatchObject({ status: 'succeeded' });
    await second.close();
    const third = await (await place.vary({ aliases: {} })).start();
    expect(third.engine.refused).toEqual([]);
    expect(await third.ledger.installations.list({})).toMatchObject([
      { status: 'installed', lastError: null },
    ]);
  });

  test('a signal that a handler waits for asks for its directive, and that for nothing more', async () => {
    const keeper = manifest({
      slug: 'keeper',
      handlers: [
        { on: 'site.down', directive: 'plugin.disable', params: { plugin: '{payload.plugin}' } },
        { on: 'directive.completed', directive: 'system.pause' },
      ],
    });
    const place = await open(database, { packages: { keeper } });
    const { engine, ledger } = await place.start();
    await ask(engine, 'plugin.enable', { plugin: 'worker' });
    await install(engine, { package_slug: 'keeper' });
    const countOf = () => engine.status().counts.directivesRequested;
    const before = countOf();
    const data = { plugin: 'worker' };
    const entry = { type: 'site.down', source: 'monitor', data, actor: 'api:monitor' };
    const { signalId } = await engine.signals.emit(entry);
    const asked = await eventually('the directive is done', async () => {
      const [found] = await ledger.directives.list({ type: 'plugin.disable', limit: 1 });
      return found?.status === 'completed' ? found : undefined;
    });
    expect(countOf()).toBeGreaterThan(before);
    expect(asked).toMatchObject({
      actor: 'installation:keeper',
      actorRole: 'admin',
      causationId: signalId,
      target: 'plugin:worker',
    });
    const pauses = await ledger.directives.list({ type: 'system.pause', limit: 10 });
    const causes = await Promise.all(
      pauses.map(({ causationId }) => ledger.signals.list({ id: causationId ?? '', limit: 1 })),
    );
    const quiet = causes.flat().filter(({ data: text }) => text.includes('installation:keeper'));
    expect(quiet).toEqual([]);
    expect(
      (await listSignalTypes(ledger)).filter((type) => type === 'directive.requested').length,
    ).toBe((await ledger.directives.list({ limit: 100 })).length);
  });
});

test('another host activates what one host installs', async () => {
  const place = await open('postgres');
  const one = await place.start();
  const two = await place.start();
  await install(one.engine);
  await eventually('the other host has it', () => two.engine.catalog.plugins.has('greeting'));
  await ask(two.engine, 'package.uninstall', { package_slug: 'greeter' });
  await eventually(
    'the first host has it no more',
    () => !one.engine.catalog.plugins.has('greeting'),
  );
});
