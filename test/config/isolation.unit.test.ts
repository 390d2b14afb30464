import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { toTenantConfig } from '../../src/config/build.ts';
import { makeConfigTree, listProblems } from '../support/config-tree.ts';

function tree(text: string): Promise<string> {
  return makeConfigTree({ 'config.yaml': `plugin_roots: [p]\n${text}\n` });
}

test('isolation is off for the operator, and paths are relative to the configuration', async () => {
  const given = await tree(
    'plugins: {a: {}, b: {isolation: {}}, c: {isolation: {network: none, read: [in], write: [/srv/out]}}}',
  );
  const { plugins, tenants, pluginIsolation, directory } = loadConfig({ given, env: {} });
  expect(plugins['a']?.isolation).toBeUndefined();
  const nothing = { network: undefined, read: [], write: [] };
  expect(plugins['b']?.isolation).toEqual(nothing);
  expect(tenants.isolation).toEqual(nothing);
  const set = { network: 'none', read: [join(directory, 'in')], write: ['/srv/out'] };
  expect({ ...pluginIsolation }).toEqual({ b: nothing, c: set });
});

test('a tenant keeps the isolation of plugins that its packages may use', async () => {
  const given = await tree('plugins: {watch: {isolation: {read: [/srv/inbox]}}}');
  const config = toTenantConfig(loadConfig({ given, env: {} }));
  expect(Object.keys(config.plugins)).toEqual([]);
  expect(config.pluginIsolation['watch']?.read).toEqual(['/srv/inbox']);
});

test.each([
  ['tenants: {isolation: {write: [p]}}', 'tenants.isolation.write[0]'],
  ['tenants: {isolation: {write: [p/mine]}}', 'tenants.isolation.write[0]'],
  ['plugins: {a: {isolation: {write: [data]}}}', 'plugins.a.isolation.write[0]'],
  ['plugins: {a: {isolation: {write: [.]}}}', 'plugins.a.isolation.write[0]'],
  ['plugins: {a: {isolation: {write: [/srv/x]}}}\npackage_roots: [/srv/x/y]', 'write[0]'],
  ['plugins: {a: {isolation: {read: [/]}}}', 'plugins.a.isolation.read[0]'],
  ['plugins: {a: {isolation: {network: some}}}', 'plugins.a.isolation.network'],
  ['plugins: {a: {isolation: yes}}', 'plugins.a.isolation'],
  ['plugins: {a: {isolation: {hidden: [/x]}}}', 'plugins.a.isolation'],
])('an isolation that would expose Ductile itself is refused: %s', async (text, key) => {
  expect(listProblems(await tree(text)).join('\n')).toContain(key);
});
