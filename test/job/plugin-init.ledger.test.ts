/** Snapshots of configurations, inits of plugins and figures about attempts. */
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { InitRequest } from '../../src/job/types.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { databases, openBench } from '../support/ledger/bench.ts';
import {
  beat,
  closeUnrunnable,
  claimable,
  draft,
  fail,
  request,
  retryLater,
  succeed,
} from '../support/ledger/drafts.ts';

const LONG_AGO = '2001-01-01T00:00:00.000Z';

function wish(
  fingerprint: string,
  why: InitRequest['why'] = 'adopted',
  plugin = 'echo',
): InitRequest {
  const job = draft({ plugin, command: 'init', maxAttempts: 1, initFor: fingerprint });
  return { plugin, fingerprint, why, job };
}

function held(fingerprint: string, isHeld = true) {
  return [claimable('echo', { init: { fingerprint, isHeld } })];
}

async function take(ledger: Ledger, plugins: ReturnType<typeof held>): Promise<string[]> {
  const jobs = await ledger.jobs.claim(request('p1', { plugins, slots: 9 }));
  return jobs.map(({ command }) => command);
}

describe.each(databases)('inits on %s', (kind) => {
  test('are queued once, whichever process asks first', async () => {
    const { ledger, open } = await openBench(kind);
    const hosts = [ledger, await open(), await open()];
    const wishes = hosts.map(() => [wish('a'), wish('a', 'adopted', 'other')]);
    const answers = await Promise.all(
      hosts.map((host, i) => host.plugins.requireInits(wishes[i] ?? [])),
    );
    const jobs = await ledger.jobs.list({ command: 'init', limit: 9 });
    expect(jobs.map(({ plugin }) => plugin).sort()).toEqual(['echo', 'other']);
    const last = await ledger.plugins.listHealth();
    expect(last.map(({ status, jobId }) => [status, jobId])).toEqual(
      last.map(({ plugin }) => ['pending', jobs.find((job) => job.plugin === plugin)?.id]),
    );
    for (const rows of answers) expect(rows.length).toBeGreaterThan(0);
  });

  test('go to processes with that configuration, before all else of the plugin', async () => {
    const { ledger } = await openBench(kind);
    await ledger.processes.heartbeat(beat('p1'));
    await ledger.jobs.enqueue({ jobs: [draft(), draft({ command: 'health' })] });
    await ledger.plugins.requireInits([wish('a')]);
    expect(await take(ledger, held('b', false))).toEqual(['handle', 'health']);
    await ledger.jobs.enqueue({ jobs: [draft(), draft({ command: 'health' })] });
    expect(await take(ledger, held('b'))).toEqual(['health']);
    expect(await take(ledger, held('a'))).toEqual(['init']);
    expect(await take(ledger, [claimable()])).toEqual(['handle']);
  });

  test('and checks are like other jobs of which one with the same key runs', async () => {
    const { ledger } = await openBench(kind);
    await ledger.processes.heartbeat(beat('p1'));
    const dedupe = { key: 'k', ttlMs: 0, blockInFlight: false };
    const checks = [1, 2].map(() => draft({ command: 'health', dedupe }));
    await ledger.jobs.enqueue({ jobs: checks });
    expect(await take(ledger, held('a'))).toEqual(['health']);
    await ledger.jobs.enqueue({ jobs: [draft()] });
    expect(await take(ledger, held('a', false))).toEqual(['handle']);
  });

  test('without a runner are not failures of the plugin', async () => {
    const { ledger, job } = await openBench(kind);
    const lost = wish('a');
    await ledger.plugins.requireInits([lost]);
    await ledger.jobs.settle([closeUnrunnable(await job(lost.job.id))]);
    expect(await ledger.plugins.reviewHealth()).toEqual([]);
    await ledger.plugins.requireInits([wish('a')]);
    expect(await ledger.plugins.reviewHealth()).toMatchObject([{ status: 'pending' }]);
  });

  test('end as their jobs end, and can be asked for again', async () => {
    const { ledger } = await openBench(kind);
    await ledger.processes.heartbeat(beat('p1'));
    await ledger.plugins.requireInits([wish('a')]);
    const [first] = await ledger.jobs.claim(request('p1', { plugins: held('a') }));
    if (first === undefined) throw new Error('nothing was claimed');
    const failed = fail(first);
    await ledger.jobs.settle([failed]);
    expect(await ledger.plugins.reviewHealth()).toMatchObject([
      { status: 'unhealthy', reason: failed.report.error, jobId: first.id },
    ]);
    await ledger.plugins.requireInits([wish('a')]);
    expect(await ledger.jobs.list({ status: ['queued'], limit: 9 })).toEqual([]);
    const again = wish('a', 'requested');
    await ledger.plugins.requireInits([again]);
    await ledger.plugins.requireInits([wish('a', 'requested')]);
    const [second, ...more] = await ledger.jobs.claim(request('p1', { plugins: held('a') }));
    expect([second?.id, more]).toEqual([again.job.id, []]);
    if (second === undefined) throw new Error('nothing was claimed');
    await ledger.jobs.settle([succeed(second)]);
    expect(await ledger.plugins.reviewHealth()).toMatchObject([
      { status: 'healthy', reason: null },
    ]);
  });

  test('that did not begin give way to those of a newer configuration', async () => {
    const { ledger, job } = await openBench(kind);
    const old = wish('a');
    await ledger.plugins.requireInits([old]);
    await ledger.plugins.requireInits([wish('b')]);
    expect((await job(old.job.id)).status).toBe('cancelled');
    expect(await ledger.plugins.listHealth()).toMatchObject([
      { fingerprint: 'b', status: 'pending' },
    ]);
    await ledger.plugins.requireInits([wish('a', 'missing')]);
    expect(await ledger.plugins.listHealth()).toHaveLength(2);
  });

  test('are remembered for the configuration in use, and forgotten for others', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.plugins.requireInits([wish('a')]);
    await sql(`update plugin_health set status = 'healthy', seen_at = ?`, [LONG_AGO]);
    const window = { what: 'health', olderThanMs: 1000, limit: 10 } as const;
    expect(await ledger.history.prune(window)).toBe(0);
    await ledger.plugins.requireInits([wish('b')]);
    expect(await ledger.history.prune(window)).toBe(1);
    expect(await ledger.plugins.listHealth()).toMatchObject([{ fingerprint: 'b' }]);
  });
});

describe.each(databases)('snapshots on %s', (kind) => {
  const snapshot = (generation: number) => ({
    id: makeId(),
    hash: 'h',
    config: '{}',
    plugins: '{"echo":"f"}',
    reason: 'start' as const,
    generation,
    processId: 'p1',
  });

  test('are named by the jobs that were claimed under them', async () => {
    const { ledger, job } = await openBench(kind);
    await ledger.processes.heartbeat(beat('p1'));
    const first = snapshot(1);
    await ledger.snapshots.insert(first);
    await ledger.snapshots.insert(first);
    const one = draft();
    await ledger.jobs.enqueue({ jobs: [one] });
    expect((await job(one.id)).configSnapshotId).toBeNull();
    const [claimed] = await ledger.jobs.claim(request('p1', { snapshotId: first.id }));
    if (claimed === undefined) throw new Error('nothing was claimed');
    expect(claimed.configSnapshotId).toBe(first.id);
    expect((await job(one.id)).configSnapshotId).toBe(first.id);
    await ledger.jobs.settle([succeed(claimed)]);
    const [attempt] = await ledger.attempts.listByJob([one.id]);
    expect(attempt?.configSnapshotId).toBe(first.id);
    expect(await ledger.snapshots.find(first.id)).toMatchObject(first);
    expect(await ledger.snapshots.list(9)).toHaveLength(1);
  });

  test('that an older program recorded are masked once', async () => {
    const { ledger, sql } = await openBench(kind);
    const [old, current] = [snapshot(1), snapshot(2)];
    await ledger.snapshots.insert(old);
    await ledger.snapshots.insert(current);
    expect(await ledger.snapshots.listUnmasked(9)).toEqual([]);
    await sql('update config_snapshots set masked = 0 where id = ?', [old.id]);
    expect(await ledger.snapshots.listUnmasked(9)).toEqual([{ id: old.id, config: old.config }]);
    await ledger.snapshots.mask([{ id: old.id, config: '{"masked":true}' }]);
    expect(await ledger.snapshots.listUnmasked(9)).toEqual([]);
    expect(await ledger.snapshots.find(old.id)).toMatchObject({
      ...old,
      config: '{"masked":true}',
    });
    expect(await ledger.snapshots.find(current.id)).toMatchObject(current);
  });

  test('are pruned when they were not used for long', async () => {
    const { ledger, sql } = await openBench(kind);
    const [used, unused] = [snapshot(1), snapshot(2)];
    await ledger.snapshots.insert(used);
    await ledger.snapshots.insert(unused);
    await sql('update config_snapshots set created_at = ?, last_used_at = ?', [LONG_AGO, LONG_AGO]);
    await ledger.snapshots.touch(used.id);
    expect(await ledger.history.prune({ what: 'snapshots', olderThanMs: 1000, limit: 9 })).toBe(1);
    expect((await ledger.snapshots.list(9)).map(({ id }) => id)).toEqual([used.id]);
  });
});

describe.each(databases)('figures on %s', (kind) => {
  test('count attempts by how they ended, and what waits for each plugin', async () => {
    const { ledger, job } = await openBench(kind);
    await ledger.processes.heartbeat(beat('p1'));
    const lost = draft({ plugin: 'removed' });
    await ledger.jobs.enqueue({ jobs: [draft(), draft(), draft(), draft(), lost] });
    const [a, b, c] = await ledger.jobs.claim(request('p1', { slots: 3 }));
    if (a === undefined || b === undefined || c === undefined) throw new Error('too few');
    await ledger.jobs.settle([
      succeed(a),
      fail(b),
      retryLater(c),
      closeUnrunnable(await job(lost.id)),
    ]);
    const { groups, truncated } = await ledger.attempts.readStatistics(60_000);
    expect(truncated).toBe(false);
    expect(
      groups.map(({ plugin, command, status, attempts }) => [plugin, command, status, attempts]),
    ).toEqual([
      ['echo', 'handle', 'failed', 2],
      ['echo', 'handle', 'succeeded', 1],
    ]);
    const { lanes, dead } = await ledger.jobs.readStatistics(60_000);
    expect(dead).toBe(1);
    expect(lanes).toEqual([{ plugin: 'echo', ready: 1, delayed: 1, running: 0 }]);
  });
});

describe.each(databases)('the process that was loaded last on %s', (kind) => {
  test('is reported, over all and over live ones', async () => {
    const { ledger, sql } = await openBench(kind);
    const nobody = { snapshotId: undefined, liveProcessId: undefined };
    expect(await ledger.processes.findLastLoaded(60_000)).toEqual(nobody);
    for (const processId of ['p1', 'p2', 'p3']) {
      await ledger.processes.heartbeat(beat(processId));
      await ledger.snapshots.insert({
        id: `snapshot-${processId}`,
        hash: 'h',
        config: '{}',
        plugins: '{}',
        reason: 'start',
        generation: 1,
        processId,
      });
      // Rows with the same millisecond would be ordered by their ids.
      await sql(`update config_snapshots set created_at = ? where process_id = ?`, [
        `2026-01-0${processId.slice(1)}T00:00:00.000Z`,
        processId,
      ]);
    }
    const latest = { snapshotId: 'snapshot-p3', liveProcessId: 'p3' };
    expect(await ledger.processes.findLastLoaded(60_000)).toEqual(latest);
    await sql(`update processes set last_heartbeat_at = ? where id = ?`, [LONG_AGO, 'p3']);
    expect(await ledger.processes.findLastLoaded(60_000)).toEqual({
      ...latest,
      liveProcessId: 'p2',
    });
  });
});
