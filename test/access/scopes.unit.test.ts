/** The meaning of scopes, by example and by law. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { allows, type Need } from '../../src/access/scopes.ts';
import { operations } from '../../src/operation/all.ts';

const read = { plugin: 'echo', command: 'poll', type: 'read' } as const;
const write = { plugin: 'echo', command: 'handle', type: 'write' } as const;
const look = { plugin: 'echo', type: 'read' } as const;

describe('scopes', () => {
  test.each<readonly [readonly string[], Need, boolean]>([
    [['*'], 'system:rw', true],
    [['*'], write, true],
    [[], 'jobs:ro', false],
    [['jobs:ro'], 'jobs:ro', true],
    [['jobs:ro'], 'jobs:rw', false],
    [['jobs:rw'], 'jobs:ro', true],
    [['jobs:ro'], 'jobs:logs:ro', true],
    [['jobs:logs:ro'], 'jobs:logs:ro', true],
    [['jobs:logs:ro'], 'jobs:ro', false],
    [['read:*'], 'system:ro', true],
    [['read:*'], 'system:rw', false],
    [['read:*'], read, true],
    [['read:*'], write, false],
    [['read:jobs'], 'jobs:ro', true],
    [['read:jobs'], 'system:ro', false],
    [['signals:ro'], 'events:ro', true],
    [['events:rw'], 'signals:ro', true],
    [['plugin:ro'], read, true],
    [['plugin:ro'], write, false],
    [['plugin:rw'], write, true],
    [['plugin:ro'], 'plugin:ro', true],
    [['echo:ro'], read, true],
    [['echo:ro'], write, false],
    [['echo:rw'], write, true],
    [['echo:rw'], 'plugin:rw', false],
    [['mail:rw'], read, false],
    [['echo:allow:handle'], write, true],
    [['echo:allow:handle'], read, false],
    [['echo:allow:handle'], look, true],
    [['plugin:rw', 'echo:deny:handle'], write, false],
    [['plugin:rw', 'echo:deny:handle'], read, true],
    [['*', 'echo:deny:handle'], write, false],
    [['echo:deny:handle'], look, false],
    [['jobs'], 'jobs:ro', false],
    [['jobs:rw:x:y'], 'jobs:ro', false],
    [['jobs:*'], 'jobs:ro', false],
    [[''], 'jobs:ro', false],
    // A plugin that is named like a noun has no scopes of its own.
    [['jobs:rw'], { plugin: 'jobs', command: 'poll', type: 'read' }, false],
  ])('%j and %j: %j', (granted, need, expected) => {
    expect(allows(granted, need)).toBe(expected);
  });

  test('the scope that an operation requires can be granted in the same words', () => {
    const requiredScopes = operations.flatMap(({ scope }) =>
      typeof scope === 'string' ? [scope] : [],
    );
    expect(requiredScopes.length).toBeGreaterThan(5);
    expect(requiredScopes.filter((scope) => !allows([scope], scope))).toEqual([]);
  });
});

const noun = fc.constantFrom('plugin', 'jobs', 'events', 'signals', 'system', 'tokens');
const plugin = fc.constantFrom('echo', 'mail', 'a.b', 'x-1');
const command = fc.constantFrom('poll', 'handle', 'sync');
const access = fc.constantFrom('ro', 'rw');
const grant = fc.oneof(
  fc.tuple(noun, access).map((parts) => parts.join(':')),
  fc.tuple(noun, fc.constantFrom('logs', 'invoke'), access).map((parts) => parts.join(':')),
  fc.tuple(plugin, access).map((parts) => parts.join(':')),
  fc.tuple(plugin, fc.constant('allow'), command).map((parts) => parts.join(':')),
  fc.constantFrom('*', 'read:*', 'read:jobs'),
  fc.string(),
);
const denial = fc.tuple(plugin, fc.constant('deny'), command).map((parts) => parts.join(':'));
const pluginNeed = fc.record({
  plugin,
  command,
  type: fc.constantFrom<'read' | 'write'>('read', 'write'),
});
const need: fc.Arbitrary<Need> = fc.oneof(
  fc.tuple(noun, access).map((parts) => parts.join(':')),
  pluginNeed,
);
const grants = fc.array(grant, { maxLength: 6 });

describe('laws of scopes', () => {
  test('more grants never allow less', () => {
    fc.assert(
      fc.property(grants, grants, need, (some, more, wanted) => {
        if (allows(some, wanted)) expect(allows([...some, ...more], wanted)).toBe(true);
      }),
    );
  });

  test('the order and repetition of grants mean nothing', () => {
    fc.assert(
      fc.property(grants, fc.array(denial, { maxLength: 3 }), need, (some, denied, wanted) => {
        const all = [...some, ...denied];
        expect(allows(all.toReversed(), wanted)).toBe(allows(all, wanted));
        expect(allows([...all, ...all], wanted)).toBe(allows(all, wanted));
      }),
    );
  });

  test('a denial never allows anything, and always wins', () => {
    fc.assert(
      fc.property(grants, denial, pluginNeed, (some, denied, wanted) => {
        if (allows([...some, denied], wanted)) expect(allows(some, wanted)).toBe(true);
        const own = `${wanted.plugin}:deny:${wanted.command}`;
        expect(allows([...some, '*', own], wanted)).toBe(false);
      }),
    );
  });

  test('a scope that may write may read', () => {
    fc.assert(
      fc.property(grants, noun, pluginNeed, (some, which, wanted) => {
        if (allows(some, `${which}:rw`)) expect(allows(some, `${which}:ro`)).toBe(true);
        if (allows(some, { ...wanted, type: 'write' })) {
          expect(allows(some, { ...wanted, type: 'read' })).toBe(true);
        }
      }),
    );
  });

  test('nothing but the star allows everything, and scopes of a plugin stay with it', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(plugin, access)), pluginNeed, noun, (own, wanted, which) => {
        const some = own.map((parts) => parts.join(':'));
        expect(allows(some, `${which}:ro`)).toBe(false);
        const others = some.filter((scope) => !scope.startsWith(`${wanted.plugin}:`));
        expect(allows(others, wanted)).toBe(false);
      }),
    );
  });
});
