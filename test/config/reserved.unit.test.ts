import { expect, test } from 'vitest';
import { readInstallation } from '../../src/config/installed.ts';

test('a package neither shares what it brings nor gives itself rights, limits or isolation', () => {
  const provides = {
    plugins: {
      mine: {
        shared: true,
        api_access: { scopes: ['*'] },
        limits: { memory: '8GiB' },
        isolation: {},
      },
      plain: {},
    },
    routes: [],
    pipelines: [],
    handlers: [],
    webhooks: [],
  };
  const { problems } = readInstallation({ id: 'i', slug: 'p', version: '1.0.0', provides });
  expect(problems.map(({ key }) => key)).toEqual([
    'plugins.mine.shared',
    'plugins.mine.api_access',
    'plugins.mine.limits',
    'plugins.mine.isolation',
  ]);
});
