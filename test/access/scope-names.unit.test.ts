/** Invalid scopes: near misses of the words that grant something. */
import { describe, expect, test } from 'vitest';
import { allows, describeNeed, hintForNeed, mayAllow, type Need } from '../../src/access/scopes.ts';

const read = { plugin: 'echo', command: 'poll', type: 'read' } as const;
const write = { plugin: 'echo', command: 'handle', type: 'write' } as const;

describe('a scope', () => {
  test.each<readonly [readonly string[], Need, boolean]>([
    // A part of one noun is no part of another, and none of the whole.
    [['system:ro'], 'jobs:logs:ro', false],
    [['jobs:list:ro'], 'jobs:logs:ro', false],
    // A need without an access level is met only by `*`.
    [['jobs:rw', 'read:*'], 'jobs', false],
    [['jobs:x'], 'jobs:x', false],
    [['*'], 'jobs', true],
    // The widest grant counts, in any order.
    [['jobs:rw', 'jobs:ro'], 'jobs:rw', true],
    [['jobs:ro', 'jobs:rw'], 'jobs:rw', true],
    [['echo:rw', 'echo:ro'], write, true],
    [['echo:ro', 'echo:rw'], write, true],
    // An additional word makes the scope invalid.
    [['jobs:logs:ro:x'], 'jobs:logs:ro', false],
    [['echo:allow:handle:x'], write, false],
    [['echo:rw:handle'], write, false],
    [['echo:ro:poll'], read, false],
    // `read` is no plugin.
    [['read:allow:poll'], { plugin: 'read', command: 'poll', type: 'read' }, false],
    [['read:echo'], read, false],
    [['read:rw'], { plugin: 'read', type: 'read' }, false],
    [[':rw'], { plugin: '', type: 'write' }, false],
    // Only `deny` with a command forbids something.
    [['plugin:rw', 'echo:forbid:handle'], write, true],
    [['plugin:rw', 'echo:deny'], write, true],
    [['plugin:invoke:ro'], read, true],
    [['plugin:invoke:ro'], write, false],
    [['plugin:invoke:rw'], write, true],
  ])('%j and %j: %j', (granted, need, expected) => {
    expect(allows(granted, need)).toBe(expected);
  });

  test.each([
    ['analytics', 'analytics'],
    ['event', 'events'],
    ['signal', 'events'],
    ['signals', 'events'],
    ['job', 'jobs'],
    ['plugins', 'plugin'],
    ['schedule', 'schedules'],
    ['run', 'runs'],
    ['token', 'tokens'],
    ['directive', 'directives'],
    ['credential', 'credentials'],
    ['incident', 'incidents'],
    ['installation', 'installations'],
    ['package', 'packages'],
    ['webhook', 'webhooks'],
  ])('may say %s for %s', (word, noun) => {
    expect(allows([`${word}:rw`], `${noun}:ro`)).toBe(true);
    expect(allows([`read:${word}`], `${noun}:ro`)).toBe(true);
    expect(allows([`read:${word}`], `${noun}:rw`)).toBe(false);
  });
});

describe('before the request says what is needed', () => {
  test.each<readonly [readonly string[], read: boolean, write: boolean]>([
    [['*'], true, true],
    [[], false, false],
    [['read:*'], true, false],
    [['jobs:ro'], true, false],
    [['jobs:rw'], true, true],
    [['echo:ro'], true, false],
    [['echo:rw'], true, true],
    [['echo:allow:poll'], true, true],
    [['echo:deny:poll'], false, false],
    [['echo:deny:poll', 'jobs:ro'], true, false],
    [['jobs:x'], false, false],
    [['echo:x'], false, false],
    [['read:echo'], false, false],
    [[':rw'], false, false],
    [['nonsense'], false, false],
  ])('%j may read: %j, may write: %j', (granted, mayRead, mayWrite) => {
    expect([mayAllow(granted, 'read'), mayAllow(granted, 'write')]).toEqual([mayRead, mayWrite]);
  });
});

test('a missing right is described by a scope that covers it', () => {
  for (const need of ['jobs:rw', read, write])
    expect(allows([describeNeed(need)], need)).toBe(true);
  expect([describeNeed(read), describeNeed(write)]).toEqual(['echo:ro', 'echo:rw']);
});

describe('the hint for a refused call', () => {
  test('names the smallest scope of the plugin, and the one for the command alone', () => {
    const need = { plugin: 'deploy', command: 'run', type: 'write' } as const;
    expect(hintForNeed(['jobs:rw'], need)).toBe(
      'Use a token with the scope deploy:rw, or deploy:allow:run for this command alone.',
    );
    expect(allows(['deploy:rw'], need)).toBe(true);
    expect(allows(['deploy:allow:run'], need)).toBe(true);
  });

  test('names the scope of all plugins for a plugin that is called like a noun', () => {
    const need = { plugin: 'jobs', command: 'run', type: 'write' } as const;
    expect(hintForNeed([], need)).toBe('Use a token with the scope plugin:rw.');
    expect(allows([describeNeed(need)], need)).toBe(true);
  });

  test('says that a scope of the token itself forbids the command', () => {
    const need = { plugin: 'deploy', command: 'run', type: 'write' } as const;
    expect(hintForNeed(['*', 'deploy:deny:run'], need)).toBe(
      "The token's scope deploy:deny:run forbids this. Use another token.",
    );
  });
});
