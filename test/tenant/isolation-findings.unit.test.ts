import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readConfig } from '../../src/config/load.ts';
import type { Context } from '../../src/operation/context.ts';
import { findTier } from '../../src/tenant/isolation-findings.operations.ts';
import type { IsolationState } from '../../src/plugin/isolation.ts';
import { makeConfigTree } from '../support/config-tree.ts';

async function find(text: string, state: IsolationState, isThere = false): Promise<string[]> {
  const directory = await makeConfigTree({ 'config.yaml': `plugin_roots: [p]\n${text}\n` });
  const context = {
    configFiles: { given: directory, isolation: () => state },
  } as unknown as Context;
  const found = findTier(readConfig({ given: directory, env: {} }), context, isThere);
  return found.map(({ severity, message }) => `${severity}: ${message}`);
}

const boxes = { tier: 'namespaces', hasOwnUser: true, reason: undefined } as const;
const weak = { tier: 'landlock', hasOwnUser: false, reason: undefined } as const;
const none = { tier: 'none', hasOwnUser: false, reason: 'no kernel for it' } as const;

describe('the isolation tier', () => {
  test('is not mentioned where nothing is isolated', async () => {
    expect(await find('', none)).toEqual([]);
  });

  test('is named with what it does', async () => {
    expect(await find('tenants: {}', boxes)).toEqual([
      'info: is isolated, with this tier: namespaces, with a user id per tenant',
    ]);
  });

  test('is a warning where it is weak', async () => {
    const [found] = await find('', weak, true);
    expect(found).toMatch(/^warning: .*landlock.*without a private \/tmp/);
  });

  test('is an error where there are tenants and no tier', async () => {
    expect(await find('', none, true)).toEqual([
      'error: is isolated, but this host supports no isolation tier: none (no kernel for it)',
    ]);
    expect((await find('tenants: {trust: shared}', none, true))[0]).toMatch(/^warning: is shared/);
  });

  test('comes with a warning where user ids of tenants cannot read the plugins', async () => {
    const directory = await makeConfigTree({ 'config.yaml': 'plugin_roots: [p]\ntenants: {}\n' });
    await mkdir(join(directory, 'p'), { mode: 0o700 });
    const context = {
      configFiles: { given: directory, isolation: () => boxes },
    } as unknown as Context;
    const found = findTier(readConfig({ given: directory, env: {} }), context, false);
    expect(found.map(({ hint }) => hint)).toContain(`Run: chmod -R o+rX ${join(directory, 'p')}`);
  });

  test('is an error for each plugin that has to be confined and cannot be', async () => {
    const found = await find('plugins: {a: {isolation: {}}, b: {}}', none);
    expect(found).toEqual([
      'error: is set, but this host supports no isolation tier: none (no kernel for it)',
    ]);
    expect(await find('plugins: {a: {isolation: {}}}', boxes)).toEqual([]);
  });
});
