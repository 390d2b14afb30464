import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { formatByteSize, parseByteSize } from '../../src/base/quantity.ts';
import type { Config } from '../../src/config/config.ts';
import { toTenantConfig } from '../../src/config/build.ts';
import { findUnenforced } from '../../src/insight/diagnose.service.ts';
import { loadCatalog } from '../../src/plugin/catalog.ts';
import { makeConfigTree, listProblems } from '../support/config-tree.ts';
import { makeDirectory } from '../support/directory.ts';
import { writeConfig } from '../support/plugin-tree.ts';

const [MIB, GIB] = [1024 ** 2, 1024 ** 3];
const shipped = join(import.meta.dirname, '../../plugins');
let directory: string;

beforeAll(async () => {
  directory = await makeDirectory();
});

async function load(yaml: string): Promise<Config> {
  return writeConfig(directory, `plugin_roots: [${JSON.stringify(shipped)}]\n${yaml}`);
}

const limitsOf = (config: Config) => loadCatalog(config).plugins.get('echo')?.limits;
const unlimited = {
  memoryBytes: undefined,
  processes: undefined,
  cpuMs: undefined,
  fileBytes: undefined,
};

describe('limits of a plugin', () => {
  test('are none unless set', async () => {
    expect(limitsOf(await load('plugins:\n  echo: {}\n'))).toEqual(unlimited);
  });

  test('are those of the service unless the plugin sets its own; 0 lifts one', async () => {
    const config = await load(`
service: { limits: { memory: 1GiB, processes: 64, cpu: 60s, file_size: 1GiB } }
plugins:
  echo: { limits: { memory: 512MiB, processes: 0 } }
`);
    const own = { memoryBytes: 512 * MIB, processes: undefined, cpuMs: 60_000, fileBytes: GIB };
    expect(limitsOf(config)).toEqual(own);
  });

  test('change its fingerprint, so that no process with other limits waits for its jobs', async () => {
    const before = loadCatalog(await load('plugins:\n  echo: {}\n')).plugins.get('echo');
    const limited = 'plugins:\n  echo: { limits: { memory: 64MiB } }\n';
    const after = loadCatalog(await load(limited)).plugins.get('echo');
    expect(after?.fingerprint).not.toBe(before?.fingerprint);
    expect(after?.identity).toBe(before?.identity);
  });

  test.each([
    ['memory: 12 parsecs', 'memory is not a size'],
    ['memory: 1KiB', 'memory must be at least 4MiB, or 0'],
    ['processes: -1', 'processes'],
    ['cpu: soon', 'cpu'],
    ['file_size: -5', 'file_size is not a size'],
    ['disk: 1GiB', 'disk'],
  ])('with %s are refused', async (entry, problem) => {
    const tree = await makeConfigTree({
      'config.yaml': `plugin_roots: [.]\nplugins:\n  echo: { limits: { ${entry} } }\n`,
    });
    expect(listProblems(tree).join('\n')).toContain(`plugins.echo.limits.${problem}`);
  });
});

test('limits that a system cannot enforce are named', async () => {
  const config = await load('plugins:\n  echo: { limits: { memory: 64MiB, file_size: 1MiB } }\n');
  const catalog = loadCatalog(config);
  expect(findUnenforced(config, catalog, 'linux')).toEqual([]);
  expect(findUnenforced(config, catalog, 'darwin')).toMatchObject([
    { key: 'plugins.echo.limits.memory', message: expect.stringContaining('darwin') },
  ]);
});

describe('limits of a tenant', () => {
  test('have defaults, which the operator can change for one plugin', async () => {
    const config = await load(`
plugins:
  echo: { shared: true, limits: { file_size: 0 } }
`);
    expect(limitsOf(toTenantConfig(config))).toEqual({
      memoryBytes: GIB,
      processes: 128,
      cpuMs: undefined,
      fileBytes: undefined,
    });
    expect(limitsOf(config)).toEqual(unlimited);
  });

  test('are the stricter of those for tenants and those for all', async () => {
    const config = await load(`
service: { limits: { memory: 256MiB, cpu: 1h } }
tenants: { limits: { processes: 500, cpu: 60s } }
plugins:
  echo: { shared: true }
`);
    const own = { memoryBytes: 256 * MIB, processes: 500, cpuMs: 60_000, fileBytes: GIB };
    expect(limitsOf(toTenantConfig(config))).toEqual(own);
  });
});

test.each([
  ['1048576', 1_048_576],
  ['512MiB', 512 * MIB],
  ['512 MB', 512 * MIB],
  ['1.5g', 1.5 * GIB],
  ['4k', 4096],
  ['7B', 7],
  ['', undefined],
  ['1TiB', undefined],
  ['-1', undefined],
])('%j is a size of %j bytes', (text, bytes) => {
  expect(parseByteSize(text)).toBe(bytes);
});

test.each([
  [0, '0B'],
  [1023, '1023B'],
  [1536, '1.5KiB'],
  [64 * MIB, '64MiB'],
  [GIB, '1GiB'],
])('%j bytes are shown as %s', (bytes, text) => {
  expect(formatByteSize(bytes)).toBe(text);
});
