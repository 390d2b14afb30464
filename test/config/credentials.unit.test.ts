import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { makeConfigTree, listProblems } from '../support/config-tree.ts';

async function tree(yaml: string): Promise<string> {
  return makeConfigTree({ 'config.yaml': `plugin_roots: [p]\n${yaml}` });
}

describe('the credentials that a configuration names', () => {
  test('are shown by their names, under whichever key', async () => {
    const directory = await tree(
      'plugins: {a: {config: {api_token: "credential:github", nested: ["credential:x.y-z"]}}}\n',
    );
    const { redacted, plugins } = loadConfig({ given: directory, env: {} });
    const config = { api_token: 'credential:github', nested: ['credential:x.y-z'] };
    expect(redacted).toMatchObject({ plugins: { a: { config } } });
    expect(plugins['a']?.config).toEqual(config);
  });

  test('have names, or the location is reported', async () => {
    const directory = await tree(
      'plugins: {a: {config: {deep: [{token: "credential:"}], other: "credential:a b"}}}\n',
    );
    const problems = listProblems(directory).join('\n');
    expect(problems).toMatch(/plugins\.a\.config\.deep\[0\]\.token does not name a credential/);
    expect(problems).toMatch(/plugins\.a\.config\.other does not name a credential/);
  });

  test('are plain text where they are only a part of one', async () => {
    const directory = await tree('plugins: {a: {config: {text: "see credential:a b"}}}\n');
    expect(loadConfig({ given: directory, env: {} }).plugins['a']?.config).toEqual({
      text: 'see credential:a b',
    });
  });

  test('their key is passed on to no plugin', async () => {
    const directory = await tree('service: {plugin_env_passthrough: [DUCTILE_CREDENTIAL_KEY]}\n');
    expect(listProblems(directory).join()).toContain('the key of all credentials');
  });
});
