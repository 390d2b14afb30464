import { describe, expect, test } from 'vitest';
import type { CliSurface } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { mergeIncidents } from '../../web/finding/merge.ts';
import { readRemedy, remedies, splitCommand } from '../../web/finding/remedy.ts';
import { findSubject } from '../../web/finding/subject.ts';

const ID = '0199a1b2-0000-7000-8000-000000000001';

describe('remedies', () => {
  test('have the arguments and options of the command that they stand for', () => {
    for (const [name, rules] of Object.entries(remedies)) {
      const operation = operations.find((one) => one.name === name);
      expect(operation?.http, name).toHaveProperty('path');
      const cli = (operation?.cli ?? {}) as Partial<CliSurface>;
      expect(rules.positionals, name).toEqual(cli.positionals ?? []);
      const line = `ductile ${cli.command ?? name.replace('.', ' ')}`;
      const values = rules.positionals.map(() => 'x');
      expect(readRemedy([line, ...values].join(' '))?.name).toBe(name);
      const fields = Object.keys(operation?.input.shape ?? {});
      expect(fields, name).toEqual(expect.arrayContaining(Object.keys(rules.options ?? {})));
    }
  });

  test.each([
    [`ductile run revive ${ID}`, 'run.revive', { id: ID }],
    [`ductile run approve ${ID} agree`, 'run.approve', { id: ID, step: 'agree' }],
    [
      'ductile breaker reset mail --command handle',
      'system.reset',
      { plugin: 'mail', command: 'handle' },
    ],
    [
      'ductile incident acknowledge job_dead:mail/handle',
      'incident.acknowledge',
      { id: 'job_dead:mail/handle' },
    ],
    ['ductile system resume --config /etc/ductile', 'system.resume', {}],
    [
      'ductile schedule resume mail nightly',
      'schedule.resume',
      { plugin: 'mail', schedule_id: 'nightly' },
    ],
    [
      'ductile jobs retry --plugin mail --status dead,timed_out --limit 100',
      'jobs.retry',
      { plugin: 'mail', status: ['dead', 'timed_out'], limit: 100 },
    ],
  ])('are read from %s', (command, name, input) => {
    expect(readRemedy(command)).toMatchObject({ name, input });
  });

  test.each([
    'ductile run revive',
    'ductile run revive <id>',
    `ductile run revive ${ID} --no-context`,
    `ductile run revive ${ID} && rm -rf /`,
    `ductile run revive $(id)`,
    'ductile run revive a b',
    'ductile constructor name',
    'chmod 700 /var/lib/ductile',
    'ductile job logs abcd',
  ])('are not made of %s', (command) => {
    expect(readRemedy(command)).toBeUndefined();
  });

  test('keep what is quoted together', () => {
    expect(splitCommand(`ductile run approve x 'a b' --why "it is fine"`)).toEqual([
      'ductile',
      'run',
      'approve',
      'x',
      'a b',
      '--why',
      'it is fine',
    ]);
    expect(splitCommand('a"b"')).toBeUndefined();
  });
});

const finding = {
  severity: 'warning' as const,
  category: 'pipelines',
  place: 'run_halted:digest',
  key: 'digest',
  message: 'A run halted.',
  fix: 'Revive it.',
  id: 'run_halted:digest',
  kind: 'run_halted',
  evidence: 'run halted',
  commands: [] as string[],
  why: null as string | null,
  since: null,
  count: 1,
  detail: null,
};

describe('the object of a finding', () => {
  test.each([
    [{ commands: [`ductile run revive ${ID}`] }, 'run', `/ui/runs/${ID}`],
    [{ commands: ['ductile breaker reset mail'] }, 'plugin', '/ui/plugins/mail'],
    [{ commands: ['ductile schedule resume mail'] }, 'schedule', '/ui/schedules/mail/default'],
    [{ commands: ['ductile webhook show deploys'] }, 'webhook', '/ui/webhooks/deploys'],
    [{ commands: ['ductile jobs retry --plugin mail'], why: ID }, 'run', `/ui/runs/${ID}`],
    [
      { id: 'schedule_late:a/b', category: 'schedules', key: 'a/b' },
      'schedule',
      '/ui/schedules/a/b',
    ],
    [
      {
        id: 'schedule_always_skipped:a/b',
        key: 'a/b',
        category: 'schedules',
        commands: [`ductile job cancel ${ID}`],
      },
      'schedule',
      '/ui/schedules/a/b',
    ],
    [
      { id: 'work_suppressed:x', category: 'jobs', commands: [`ductile why ${ID}`], why: ID },
      'job',
      `/ui/jobs/${ID}`,
    ],
    [{ category: 'webhooks', key: 'webhook deploys' }, 'webhook', '/ui/webhooks/deploys'],
  ])('is found for %j', (changes, noun, href) => {
    expect(findSubject({ ...finding, ...changes })).toEqual({ noun, href });
  });

  test('is not made up', () => {
    expect(findSubject({ ...finding, commands: ['chmod 700 /x'], why: 'digest' })).toBeUndefined();
  });
});

test('findings come by severity with their incidents, and incidents stand for findings that are not known', () => {
  const incident = {
    incident_id: ID,
    kind: 'run_halted' as const,
    key: 'digest',
    status: 'open' as const,
    message: 'halted',
    opened_at: '2026-01-01T00:00:00.000Z',
    last_seen_at: '2026-01-01T00:00:00.000Z',
    closed_at: null,
    count: 1,
    detail: {},
  };
  const other = { ...incident, kind: 'breaker_open' as const, key: 'mail/handle' };
  const merged = mergeIncidents(
    [{ ...finding, severity: 'info', id: 'x:y' }, finding],
    [incident, other],
  );
  expect(merged.map(({ id, severity }) => [id, severity])).toEqual([
    ['run_halted:digest', 'warning'],
    ['x:y', 'info'],
  ]);
  expect(merged[0]?.incident).toBe(incident);
  const alone = mergeIncidents(undefined, [incident, other]);
  expect(alone.map(({ id }) => id)).toEqual(['run_halted:digest', 'breaker_open:mail/handle']);
  expect(alone[1]?.commands[0]).toBe('ductile breaker reset mail --command handle');
});
