import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { findConfig, type FindOptions } from '../../src/config/find.ts';
import { makeDirectory } from '../support/directory.ts';

let base: string;
let options: FindOptions;

beforeEach(async () => {
  base = await makeDirectory();
  options = { env: {}, home: join(base, 'home'), cwd: base, systemDirectory: join(base, 'etc') };
});

async function put(...path: string[]): Promise<string> {
  const directory = join(base, ...path);
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'config.yaml'), '');
  return directory;
}

describe('the search for the configuration', () => {
  test('--config names a directory or a file, relative to where the command runs', async () => {
    const directory = await put('here');
    const file = join(directory, 'config.yaml');
    expect(findConfig({ ...options, given: 'here' })).toEqual({ file, directory });
    expect(findConfig({ ...options, given: 'here/config.yaml' })).toEqual({ file, directory });
  });

  test('--config wins over the variable, the variable over home, home over the system', async () => {
    const system = await put('etc');
    expect(findConfig(options).directory).toBe(system);
    const home = await put('home', '.config', 'ductile');
    expect(findConfig(options).directory).toBe(home);
    const variable = await put('variable');
    const env = { DUCTILE_CONFIG_DIR: variable };
    expect(findConfig({ ...options, env }).directory).toBe(variable);
    const path = await put('given');
    expect(findConfig({ ...options, env, given: path }).directory).toBe(path);
  });

  test('an empty variable counts as unset', async () => {
    const system = await put('etc');
    const env = { DUCTILE_CONFIG_DIR: '' };
    expect(findConfig({ ...options, env }).directory).toBe(system);
  });

  test('a named location is not replaced by another', async () => {
    await put('etc');
    expect(() => findConfig({ ...options, given: 'nowhere' })).toThrow(
      expect.objectContaining({
        code: 'CONFIG_NOT_FOUND',
        message: expect.stringContaining(join(base, 'nowhere')),
      }),
    );
    const env = { DUCTILE_CONFIG_DIR: join(base, 'neither') };
    expect(() => findConfig({ ...options, env })).toThrow(/neither.*DUCTILE_CONFIG_DIR/);
  });

  test('the error names all places that were looked at', () => {
    expect(() => findConfig(options)).toThrow(
      expect.objectContaining({
        code: 'CONFIG_NOT_FOUND',
        details: { looked: [join(base, 'home', '.config', 'ductile'), join(base, 'etc')] },
      }),
    );
  });

  test('config.yml gets a hint', async () => {
    await mkdir(join(base, 'etc'));
    await writeFile(join(base, 'etc', 'config.yml'), '');
    expect(() => findConfig(options)).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('Rename') }),
    );
  });
});
