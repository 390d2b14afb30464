import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { describeProblem } from '../../src/config/problem.ts';
import { checkRoutes, type CheckedRoutes } from '../../src/pipeline/check-routes.service.ts';
import { loadCatalog } from '../../src/plugin/catalog.ts';
import { makeDirectory } from '../support/directory.ts';
import { writeConfig, writePlugin } from '../support/plugin-tree.ts';

let base: string;

beforeAll(async () => {
  base = await makeDirectory();
  const root = join(base, 'plugins');
  const commands = 'commands: [handle, sync, b]';
  await writePlugin(join(root, 'a'), { name: 'a', commands });
  await writePlugin(join(root, 'a.b'), { name: 'a.b', commands: 'commands: [handle]' });
  await writePlugin(join(root, 'poller'), { name: 'poller', commands: 'commands: [poll]' });
  await writePlugin(join(root, 'broken'), { manifest: 'name: broken' });
});

async function check(...routes: string[]): Promise<CheckedRoutes> {
  const list = routes.map((route) => `  - {event_type: x, ${route}}`).join('\n');
  const config = await writeConfig(
    base,
    `plugin_roots: [plugins]\nplugins: {off: {enabled: false}}\nroutes:\n${list}\n`,
  );
  return checkRoutes(config.routes, loadCatalog(config));
}

async function targets(...routes: string[]): Promise<string[]> {
  const checked = await check(...routes);
  expect(checked.problems).toEqual([]);
  return checked.routes.map(({ plugin, command }) => `${plugin} ${command}`);
}

async function told(route: string): Promise<string> {
  const { problems, routes } = await check(route);
  expect(routes).toEqual([]);
  return problems.map(describeProblem).join('\n');
}

describe('checkRoutes', () => {
  test('a route leads to handle, or to the command that it names in either way', async () => {
    expect(await targets('to: a', 'to: a.sync', 'to: a, command: sync')).toEqual([
      'a handle',
      'a sync',
      'a sync',
    ]);
  });

  test('a plugin literally named so wins over a command', async () => {
    expect(await targets('to: a.b')).toEqual(['a.b handle']);
    expect(await targets('to: a, command: b')).toEqual(['a b']);
  });

  test('an unknown plugin or command is a problem with its line', async () => {
    expect(await told('to: poler')).toMatch(
      /config\.yaml:4:5: routes\[0\]\.to names poler, which is not a plugin\. Did you mean poller\?/,
    );
    expect(await told('to: a.snyc')).toContain('the command snyc, which the plugin a does not');
    expect(await told('to: a.sync, command: handle')).toContain('names a.sync, which is not');
    expect(await told('to: poller')).toContain('The commands are poll.');
  });

  test('a target that did not load is reported with the reason', async () => {
    expect(await told('to: broken')).toMatch(/broken, which did not load: .* is required/);
  });

  test('a route to a disabled plugin is not active, and that is reported', async () => {
    const { routes, problems, warnings } = await check('to: off', 'to: a');
    expect(problems).toEqual([]);
    expect(routes.map(({ plugin }) => plugin)).toEqual(['a']);
    expect(warnings.map(describeProblem).join()).toContain('off, which is disabled');
  });

  test("a source that isn't a plugin is allowed and pointed out", async () => {
    const { routes, warnings } = await check('from: github, to: a', 'from: a, to: a');
    expect(routes.map(({ from }) => from)).toEqual(['github', 'a']);
    expect(warnings).toHaveLength(1);
  });
});
