import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { makeKeyRing, makeVault } from '../../src/access/vault.service.ts';
import { makeDirectory } from '../support/directory.ts';

const hex = (fill: string): string => fill.repeat(64);
const base64 = (fill: number): string => Buffer.alloc(32, fill).toString('base64');

describe('the keys of an installation', () => {
  test('are made on first use and not before, for the owner alone', async () => {
    const directory = join(await makeDirectory(), 'state');
    const ring = makeKeyRing({ directory, environment: {} });
    const file = join(directory, 'credential.key');
    expect(ring.all()).toEqual([]);
    await expect(stat(file)).rejects.toThrow('ENOENT');
    const { id } = ring.newest();
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(makeKeyRing({ directory, environment: {} }).newest().id).toBe(id);
  });

  test('are renewed once for a reason; the old ones still open, even for a process with the file open', async () => {
    const directory = await makeDirectory();
    const [one, two] = [0, 1].map(() => makeVault(makeKeyRing({ directory, environment: {} })));
    if (one === undefined || two === undefined) throw new Error('there are two');
    const sealed = one.seal('value', 'p');
    const renewed = one.renew('directive 1');
    expect(renewed).not.toBe(sealed.keyId);
    expect(one.renew('directive 1')).toBe(renewed);
    expect(two.keyId).toBe(renewed);
    expect(two.open(sealed, 'p')).toBe('value');
    expect(two.open(one.seal('more', 'p'), 'p')).toBe('more');
    expect(two.renew('directive 2')).not.toBe(renewed);
    expect(one.open(two.seal('most', 'p'), 'p')).toBe('most');
  });

  test('from the environment seal before those of the file, which open, and are not renewed', async () => {
    const directory = await makeDirectory();
    const old = makeVault(makeKeyRing({ directory, environment: {} })).seal('value', 'p');
    const environment = {
      DUCTILE_CREDENTIAL_KEY: hex('a'),
      DUCTILE_CREDENTIAL_KEYS: `${base64(2)}, ${base64(3)}`,
    };
    const vault = makeVault(makeKeyRing({ directory, environment }));
    expect(vault.keyIds).toHaveLength(4);
    expect(vault.open(old, 'p')).toBe('value');
    expect(vault.renew('directive 1')).toBeUndefined();
    const only = makeVault(
      makeKeyRing({
        directory: await makeDirectory(),
        environment: { DUCTILE_CREDENTIAL_KEY: hex('a') },
      }),
    );
    expect(only.keyId).toBe(vault.keyId);
    expect(() => only.open(old, 'p')).toThrow(`the key ${old.keyId} is missing here`);
  });

  test.each([
    ['that others may read', 0o640, `${base64(1)}\n`, 'is readable by other users'],
    ['with nothing in it', 0o600, '\n# nothing\n', 'contains no key'],
    ['with half a key', 0o600, 'c2hvcnQ=\n', 'is not a key of 32 bytes'],
  ])('are refused from a file %s, without showing it', async (_, mode, content, why) => {
    const directory = await makeDirectory();
    await mkdir(directory, { recursive: true });
    const file = join(directory, 'credential.key');
    await writeFile(file, content);
    await chmod(file, mode);
    const ring = makeKeyRing({ directory, environment: {} });
    expect(() => ring.newest()).toThrow(why);
    expect(() => ring.newest()).not.toThrow(content.trim());
    expect(await readFile(file, 'utf8')).toBe(content);
  });

  test('are refused from the environment when they are none, without showing them', () => {
    const environment = { DUCTILE_CREDENTIAL_KEY: 'hunter2' };
    const make = () => makeKeyRing({ directory: '/nowhere', environment });
    expect(make).toThrow('is not a key of 32 bytes');
    expect(make).not.toThrow('hunter2');
  });

  test('are not created again when something is sealed with one that is gone', async () => {
    const ring = makeKeyRing({ directory: await makeDirectory(), environment: {} });
    ring.forbidFirstKey();
    expect(() => ring.newest()).toThrow('the key that opens them is missing');
  });
});
