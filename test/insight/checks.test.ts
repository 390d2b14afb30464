/** The checks of doctor on real ledgers: each finds its problem, and nothing without it. */
import { writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { digestConfigFiles } from '../../src/config/integrity.ts';
import type { Config } from '../../src/config/config.ts';
import { createBareReport } from '../../src/job/attempt.ts';
import type { LiveFinding } from '../../src/insight/finding.ts';
import { findLiveFindings } from '../../src/insight/checks.service.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { databases, openBench, range, type Bench } from '../support/ledger/bench.ts';
import {
  beat,
  claimAs,
  crash,
  fail,
  settleOne,
  signalOf,
  startOne,
  succeed,
} from '../support/ledger/drafts.ts';
import { makeDirectory } from '../support/directory.ts';

async function makeConfig(): Promise<Config> {
  const directory = await makeDirectory();
  const file = join(directory, 'config.yaml');
  await writeFile(file, 'plugin_roots: [plugins]\nservice: {name: before}\n');
  return loadConfig({ given: directory });
}

async function look(ledger: Ledger, given?: Config): Promise<LiveFinding[]> {
  const config = given ?? (await makeConfig());
  const now = await ledger.now();
  const context = { ledger, config, catalog: undefined, now, keyIds: undefined, isRoot: true };
  return await findLiveFindings(context);
}

async function findKind(ledger: Ledger, kind: string, config?: Config): Promise<LiveFinding[]> {
  return (await look(ledger, config)).filter((finding) => finding.kind === kind);
}

async function age({ sql }: Bench, jobId: string, minutes: number): Promise<void> {
  const startedAt = new Date(Date.now() - minutes * 60_000).toISOString();
  await sql('update job_queue set started_at = ? where id = ?', [startedAt, jobId]);
}

describe.each(databases)('on %s', (kind) => {
  test('an empty ledger has no findings', async () => {
    const { ledger } = await openBench(kind);
    expect(await look(ledger)).toEqual([]);
  });

  test('a job that outlives three crashes of the service is a crash loop until it ends', async () => {
    const { ledger } = await openBench(kind);
    let job = await startOne(ledger, 'p0', { plugin: 'echo' });
    for (const round of range(3)) {
      await settleOne(ledger, crash(job, true));
      expect(await findKind(ledger, 'crash_loop')).toHaveLength(round === 2 ? 1 : 0);
      const [again] = await claimAs(ledger, `p${round + 1}`);
      if (again === undefined) throw new Error('it is not claimed again');
      job = again;
    }
    const [loop] = await findKind(ledger, 'crash_loop');
    expect(loop).toMatchObject({
      key: 'echo/handle',
      severity: 'error',
      count: 3,
      why: job.id,
      commands: [`ductile job cancel ${job.id}`, 'ductile plugin disable echo'],
    });
    expect(loop?.message).toContain(`crashed 3 times while job ${job.id}`);
    await settleOne(ledger, succeed(job));
    expect(await findKind(ledger, 'crash_loop')).toEqual([]);
  });

  test('a job that holds a key for far longer than its command takes is overlong', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    for (const _ of range(4)) await settleOne(ledger, succeed(await startOne(ledger, 'p1')));
    await sql('update job_log set run_ms = 200');
    const { id } = await startOne(ledger, 'p1', { dependencyKey: 'db' });
    expect(await findKind(ledger, 'job_overlong')).toEqual([]);
    await age(bench, id, 10);
    const [found] = await findKind(ledger, 'job_overlong');
    expect(found).toMatchObject({
      key: 'echo/handle',
      severity: 'warning',
      why: id,
      count: 1,
    });
    expect(found?.message).toMatch(/has held the dependency key db for 10m\d*s?\.$/);
    expect(found?.evidence).toContain('95 % of the last 4 attempts: at most 200ms');
    expect(found?.evidence).toContain('has recorded nothing since');
    expect(found?.commands[0]).toBe(`ductile job cancel ${id}`);
    const second = await startOne(ledger, 'p1');
    await age(bench, second.id, 5);
    expect(await findKind(ledger, 'job_overlong')).toMatchObject([{ why: id, count: 2 }]);
  });

  test('a long job without a history is only a note, and only after long', async () => {
    const bench = await openBench(kind);
    const { id } = await startOne(bench.ledger, 'p1');
    await age(bench, id, 10);
    expect(await findKind(bench.ledger, 'job_overlong')).toEqual([]);
    await age(bench, id, 60);
    const [found] = await findKind(bench.ledger, 'job_overlong');
    expect(found).toMatchObject({ severity: 'info' });
    expect(found?.message).toContain('has held a worker slot for 1h');
  });

  test('a schedule that can never fire, and one that is always skipped, are findings', async () => {
    const { ledger, sql } = await openBench(kind);
    const now = await ledger.now();
    const entry = (scheduleId: string) => ({
      plugin: 'feed',
      scheduleId,
      command: 'poll',
      mode: 'cron' as const,
      timing: '0 3 * * *',
      timezone: 'UTC',
      generation: 'g1',
      invalid: undefined,
      next: undefined,
      seenAt: now,
    });
    const next = { slotAt: '2100-01-01T00:00:00.000Z', dueAt: '2100-01-01T00:00:00.000Z' };
    await ledger.schedules.sync([
      entry('never'),
      { ...entry('skipped'), next },
      { ...entry('well'), next },
    ]);
    await sql(
      `update schedules set skipped_in_row = 3, last_skip_reason = 'plugin_disabled',
        last_skipped_at = ? where schedule_id = 'skipped'`,
      [now],
    );
    const found = await look(ledger);
    expect(found.map((one) => [one.kind, one.key])).toEqual([
      ['schedule_never_fires', 'feed/never'],
      ['schedule_always_skipped', 'feed/skipped'],
    ]);
    expect(found[1]?.commands[0]).toBe('ductile plugin enable feed');
  });

  test('refused calls and suppressed work are read from the counts on record', async () => {
    const { ledger } = await openBench(kind);
    const refused = { actor: 'token:ci', operation: 'plugin.run', scope: 'deploy:rw' };
    const work = { target: 'mail/handle', dedupe_key: 'all', holder_kind: 'job' };
    const suppressed = { ...work, holder_id: 'j1', different: 5 };
    await ledger.observations.record([
      { kind: 'call_refused', key: 'ci', count: 2, detail: JSON.stringify(refused) },
      {
        kind: 'job_suppressed',
        key: 'mail/handle all',
        count: 7,
        detail: JSON.stringify(suppressed),
      },
    ]);
    const found = await look(ledger);
    expect(new Map(found.map((one) => [one.kind, one.count]))).toEqual(
      new Map([
        ['call_refused', 2],
        ['work_suppressed', 7],
      ]),
    );
  });

  test('a failure for want of a variable names the key that passes it on, until it succeeds', async () => {
    const { ledger } = await openBench(kind);
    const config = await makeConfig();
    const failed = await startOne(ledger, 'p1');
    const closing = fail(failed);
    const error = "KeyError: 'FEED_TOKEN'";
    const report = { ...closing.report, ...createBareReport('failed', 'exit', ''), error };
    await settleOne(ledger, { ...closing, report });
    const [found] = await findKind(ledger, 'plugin_env_missing', config);
    expect(found).toMatchObject({
      key: 'echo/FEED_TOKEN',
      why: failed.id,
      commands: [
        `ductile config set 'service.plugin_env_passthrough=["FEED_TOKEN"]' --apply && ductile system reload`,
        `ductile job retry ${failed.id}`,
      ],
    });
    const passed = { ...config.service, pluginEnvPassthrough: ['FEED_TOKEN'] };
    expect(await findKind(ledger, 'plugin_env_missing', { ...config, service: passed })).toEqual(
      [],
    );
    await settleOne(ledger, succeed(await startOne(ledger, 'p1')));
    expect(await findKind(ledger, 'plugin_env_missing', config)).toEqual([]);
  });

  test('a configuration that changed on disk is found with its keys, and not without a change', async () => {
    const { ledger } = await openBench(kind);
    const config = await makeConfig();
    const { file, files, redacted } = config;
    const used = { host: hostname(), configFile: file, configDigest: digestConfigFiles(files) };
    await ledger.processes.heartbeat(beat('p1', used));
    await ledger.snapshots.insert({
      id: 's1',
      hash: 'h',
      config: JSON.stringify(redacted),
      plugins: '{}',
      reason: 'start',
      generation: 1,
      processId: 'p1',
    });
    expect(await look(ledger, config)).toEqual([]);
    await writeFile(file, 'plugin_roots: [plugins]\nservice: {name: after}\n');
    const [found] = await findKind(ledger, 'config_changed', config);
    expect(found).toMatchObject({
      key: file,
      evidence: 'service.name: "before" → "after"',
      commands: ['ductile system reload', 'ductile system reload --dry-run', 'ductile config diff'],
      detail: { keys: ['service.name'] },
    });
    // The command line reads the new files, and finds the same.
    expect(await findKind(ledger, 'config_changed', loadConfig({ given: file }))).toHaveLength(1);
    await writeFile(file, 'plugin_roots: [plugins]\nservice: {name: [}\n');
    const [broken] = await findKind(ledger, 'config_changed', config);
    expect(broken?.evidence).toContain('the files have errors');
  });

  test('a process with another configuration file is named where there can be only one', async () => {
    const { ledger } = await openBench(kind);
    const other = { host: hostname(), pid: 4711, configFile: '/etc/other/config.yaml' };
    await ledger.processes.heartbeat(beat('p1', other));
    const found = await findKind(ledger, 'lock_held');
    expect(found).toHaveLength(kind === 'sqlite' ? 1 : 0);
    if (kind !== 'sqlite') return;
    expect(found[0]?.message).toContain('with another configuration: /etc/other/config.yaml, not ');
    expect(found[0]?.commands).toEqual([
      'kill 4711',
      'ductile doctor --config /etc/other/config.yaml',
    ]);
  });

  test('an installation whose plugin never emits what its route waits for is a finding', async () => {
    const { ledger, sql } = await openBench(kind);
    const provisioned = JSON.stringify({
      plugins: { watcher: { uses: 'echo' } },
      routes: [{ from: 'watcher', event_type: 'folder.added', to: 'echo' }],
      pipelines: [],
      handlers: [],
    });
    await sql(
      `insert into package_installations (id, slug, version, hash, status, config, config_checksum,
        provisioned, revision, directive_id, installed_by, installed_at, updated_at)
        values ('i1', 'folder-notify', '1.0.0', 'h', 'installed', '{}', 'c', ?, 1, 'd', 'me',
          '2020-01-01T00:00:00.000Z', '2020-01-01T00:00:00.000Z')`,
      [provisioned],
    );
    expect(await findKind(ledger, 'installation_unmatched')).toEqual([]);
    for (const _ of range(10)) {
      await settleOne(ledger, succeed(await startOne(ledger, 'p1', { plugin: 'watcher' })));
    }
    expect(await findKind(ledger, 'installation_unmatched')).toMatchObject([
      { key: 'folder-notify/watcher', severity: 'warning' },
    ]);
    const job = await startOne(ledger, 'p1', { plugin: 'watcher' });
    await settleOne(
      ledger,
      succeed(job, { signals: [signalOf(job, 0, { type: 'folder.added' })] }),
    );
    expect(await findKind(ledger, 'installation_unmatched')).toEqual([]);
    // A real installation would own what it provides.
    await sql('delete from package_installations');
  });
});
