import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { makeConfigTree, listProblems } from '../support/config-tree.ts';

function tree(directives: string): Promise<string> {
  return makeConfigTree({ 'config.yaml': `plugin_roots: [p]\ndirectives: ${directives}\n` });
}

test.each([
  ['{}', {}],
  ['{approval: [job.cancel, run.revive]}', { 'job.cancel': [], 'run.revive': [] }],
  [
    '{approval: {job.cancel: ["token:boss"], job.retry: []}}',
    {
      'job.cancel': ['token:boss'],
      'job.retry': [],
    },
  ],
])('an action that waits for approval: %s', async (directives, approval) => {
  const config = loadConfig({ given: await tree(directives), env: {} });
  expect({ ...config.directives.approval }).toEqual(approval);
});

test.each([
  ['{approval: [job.cancle]}', 'directives.approval[0]'],
  ['{approval: [config.reload]}', 'directives.approval[0]'],
  ['{approval: {credential.set: []}}', 'directives.approval.credential.set'],
  ['{approval: {job.cancel: boss}}', 'directives.approval.job.cancel'],
  ['{approval: yes}', 'directives.approval'],
])('an invalid setting is refused with its location: %s', async (directives, key) => {
  const [problem, ...others] = listProblems(await tree(directives));
  expect(others).toEqual([]);
  expect(problem).toContain(key.split('.').at(-1));
});
