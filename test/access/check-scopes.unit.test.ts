/** Warnings about scopes that do not do what the operator probably meant. */
import { expect, test } from 'vitest';
import {
  explainCommand,
  explainScope,
  type ScopedPlugins,
} from '../../src/access/check-scopes.service.ts';

const known: ScopedPlugins = {
  names: new Set(['mail', 'broken']),
  commandsOf: (plugin) => (plugin === 'mail' ? ['poll', 'send'] : undefined),
};

test.each(['*', 'jobs:ro', 'jobs:logs:ro', 'read:*', 'mail:rw', 'mail:deny:send'])(
  '%s is one',
  (scope) => {
    expect(explainScope(scope, known)).toBeUndefined();
    expect(explainCommand(scope, known)).toBeUndefined();
  },
);

test.each([
  ['plugn:rw', 'no plugin is configured as plugn', 'Did you mean plugin?'],
  ['mial:allow:send', 'no plugin is configured as mial', 'Did you mean mail?'],
  ['jobs:all', 'neither ro nor rw', 'Write jobs:ro'],
  ['mail', 'not a scope', 'Write jobs:ro'],
  ['mail:forbid:send', 'not a scope', 'Write jobs:ro'],
])('%s grants nothing', (scope, message, hint) => {
  const fault = explainScope(scope, known);
  expect(fault?.message).toContain(message);
  expect(fault?.hint).toContain(hint);
});

test('a rule for a command that the plugin does not have is a slip', () => {
  expect(explainCommand('mail:deny:snd', known)).toEqual({
    message: 'has "mail:deny:snd", but mail has no command snd',
    hint: 'Did you mean send?',
  });
  // Standard commands may come with the next version, and an invalid manifest isn't checked.
  for (const scope of ['mail:deny:init', 'broken:allow:send', 'nobody:allow:send']) {
    expect(explainCommand(scope, known)).toBeUndefined();
  }
});
