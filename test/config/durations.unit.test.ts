import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { makeConfigTree, listProblems } from '../support/config-tree.ts';

/** Databases take dates and not any sum of milliseconds. */
test.each([
  ['service.job_queue_retention', 'service: {job_queue_retention: 4000000d}'],
  ['service.fact_retention', 'service: {fact_retention: 4000000d}'],
  ['service.breaker_transitions_retention', 'service: {breaker_transitions_retention: 4000000d}'],
  ['service.runner_grace', 'service: {runner_grace: 4000000d}'],
  ['plugins.a.retry.backoff_base', 'plugins: {a: {retry: {backoff_base: 4000000d}}}'],
  [
    'plugins.a.circuit_breaker.reset_after',
    'plugins: {a: {circuit_breaker: {reset_after: 4000000d}}}',
  ],
])('%s is no longer than the clock can reckon with', async (key, text) => {
  const yaml = `plugin_roots: [plugins]\n${text}\n`;
  const problems = listProblems(await makeConfigTree({ 'config.yaml': yaml }));
  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain(`${key} must be at most 36500d`);
  const longest = await makeConfigTree({ 'config.yaml': yaml.replace('4000000d', '36500d') });
  expect(loadConfig({ given: longest, env: {} }).file).toContain(longest);
});
