/** The commands that change the system, and their output. */
import { expect, test } from 'vitest';
import { run } from '../support/fake-cli.ts';

test.each<[string, string, unknown]>([
  ['job retry 0199', 'job.retry', { id: '0199' }],
  ['job tree 0199', 'job.tree', { id: '0199' }],
  [
    'jobs cancel -p mail -s queued --older-than 2h --dry-run',
    'jobs.cancel',
    { plugin: 'mail', status: ['queued'], older_than: '2h', dry_run: true },
  ],
  ['jobs retry --status dead -n 5', 'jobs.retry', { status: ['dead'], limit: 5 }],
  ['plugin disable mail', 'plugin.disable', { plugin: 'mail' }],
  ['plugin enable mail --dry-run', 'plugin.enable', { plugin: 'mail', dry_run: true }],
  [
    'token create deploy --scopes plugin:rw,jobs:ro --expires 90d',
    'token.create',
    { name: 'deploy', scopes: ['plugin:rw', 'jobs:ro'], expires: '90d' },
  ],
  ['token list', 'token.list', {}],
  ['token rotate deploy', 'token.rotate', { token: 'deploy' }],
  ['token revoke deploy', 'token.revoke', { token: 'deploy' }],
  [
    'directive list --type job.cancel -s failed',
    'directive.list',
    { type: 'job.cancel', status: ['failed'] },
  ],
  ['directive show 0199', 'directive.show', { id: '0199' }],
  [
    'directive request plugin.disable --params {"plugin":"mail"} --idempotency-key k',
    'directive.request',
    { type: 'plugin.disable', params: { plugin: 'mail' }, idempotency_key: 'k' },
  ],
  [
    'directive request system.pause --delay 5m --correlation-id c1',
    'directive.request',
    { type: 'system.pause', delay: '5m', correlation_id: 'c1' },
  ],
  ['directive approve 0199 --dry-run', 'directive.approve', { id: '0199', dry_run: true }],
  ['directive cancel 0199', 'directive.cancel', { id: '0199' }],
  [
    'job list --submitted-by api --from 2026-11-15T00:00:00Z --query refused',
    'job.list',
    { submitted_by: 'api', from: '2026-11-15T00:00:00Z', query: 'refused' },
  ],
  [
    'plugin run mail --no-wait --delay 5m --dedupe-key 7 --dedupe-ttl 1h',
    'plugin.run',
    { plugin: 'mail', wait: false, delay: '5m', dedupe_key: '7', dedupe_ttl: '1h' },
  ],
  ['plugin run mail --delay 5m', 'plugin.run', { plugin: 'mail', delay: '5m' }],
  [
    'plugin run mail --delay 5m --wait 6m',
    'plugin.run',
    { plugin: 'mail', delay: '5m', wait: '6m' },
  ],
  [
    'plugin run mail --no-wait --run-at 2026-11-15T00:00:00Z',
    'plugin.run',
    { plugin: 'mail', wait: false, run_at: '2026-11-15T00:00:00Z' },
  ],
])('ductile %s', async (line, name, input) => {
  const { calls, err } = await run(line.split(' '));
  expect(err).toBe('');
  expect(calls).toEqual([[name, input]]);
});

test('a new token is printed with its text', async () => {
  const answer = {
    token_id: 't',
    name: 'deploy',
    token: 'duct_x',
    scopes: ['*'],
    expires_at: null,
  };
  const { out, code } = await run(['token', 'create', 'deploy', '--scopes', '*'], { answer });
  expect(code).toBe(0);
  expect(out).toContain('duct_x');
});

test('a directive that failed is bad news', async () => {
  const answer = { directive_id: 'd', status: 'failed', error_message: 'no room' };
  const { out, code } = await run(['directive', 'request', 'config.reload'], { answer });
  expect(code).toBe(1);
  expect(out).toContain('no room');
});
