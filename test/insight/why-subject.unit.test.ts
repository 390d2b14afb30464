import { expect, test } from 'vitest';
import { parseSubject } from '../../src/insight/why/find-subject.ts';

const id = '0199a1b2-c3d4-7e5f-8a5b-6c7d8e9f0a1b';

test.each([
  ['0199a1b2', 'any', '0199a1b2'],
  [`job ${id}`, 'job', id],
  ['Run 0199a1b2', 'run', '0199a1b2'],
  ['webhook:deploys', 'webhook', 'deploys'],
  ['schedule:mail/nightly', 'schedule', 'mail/nightly'],
  ['plugin feed poll', 'plugin', 'feed/poll'],
  ['feed poll', 'any', 'feed/poll'],
  ['feed/poll', 'any', 'feed/poll'],
  [`${id}-3`, 'job', id],
  [`attempt ${id}-3`, 'job', id],
  [`attempt ${id} 3`, 'job', id],
  ['run_halted:deploy', 'any', 'run_halted:deploy'],
  ['finding run_halted:deploy', 'finding', 'run_halted:deploy'],
])('%s is read as %s %s', (text, kind, name) => {
  expect(parseSubject(text)).toEqual({ kind, id: name });
});

test('a kind that was given is not overridden by the text', () => {
  expect(parseSubject('run', 'webhook')).toEqual({ kind: 'webhook', id: 'run' });
});
