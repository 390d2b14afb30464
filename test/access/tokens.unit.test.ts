/** The owner of a token. */
import { describe, expect, test } from 'vitest';
import type { ApiToken } from '../../src/config/config.ts';
import {
  findConfiguredByActor,
  hashTokenText,
  findConfigured,
  isToken,
  makePrincipal,
} from '../../src/access/tokens.service.ts';

const token = (name: string, text: string, ...scopes: string[]): ApiToken => ({
  name,
  digest: hashTokenText(text),
  scopes,
  place: 'config.yaml:1:1',
});
const tokens = [token('deploy', 'first', 'jobs:rw'), token('watch', 'second', 'read:*')];

describe('a token of the configuration', () => {
  test('is found wherever it stands, with its own scopes', () => {
    expect(findConfigured(tokens, 'first')).toMatchObject({
      actor: 'token:deploy',
      scopes: ['jobs:rw'],
      tenant: undefined,
    });
    expect(findConfigured(tokens, 'second')).toMatchObject({ actor: 'token:watch' });
  });

  test.each(['', 'firs', 'firstx', 'First', 'first ', hashTokenText('first'), 'deploy'])(
    'is not %j',
    (presented) => {
      expect(findConfigured(tokens, presented)).toBeUndefined();
    },
  );

  test('is unknown if there are none', () => {
    expect(findConfigured([], 'first')).toBeUndefined();
  });

  test('is known by its actor', () => {
    expect(findConfiguredByActor(tokens, 'token:watch')).toMatchObject({ scopes: ['read:*'] });
    expect(findConfiguredByActor(tokens, 'watch')).toBeUndefined();
    expect([isToken('token:watch'), isToken('cli:ann'), isToken('my-token:x')]).toEqual([
      true,
      false,
      false,
    ]);
  });

  test('is stored as its SHA-256 digest', () => {
    expect(hashTokenText('abc')).toBe(
      'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    );
    expect(makePrincipal('cli:ann', ['*']).role).toBe('owner');
  });
});
