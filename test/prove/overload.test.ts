/**
 * A tenant submits far more than can be done while another submits a little now and then. The
 * second tenant's work starts as if the first didn't exist, memory stays bounded, and no queued
 * work is lost.
 */
import { noRules } from '../../src/ledger/rules.ts';
import { readFileSync } from 'node:fs';
import { fromTimestamp, toTimestamp } from '../../src/base/clock.ts';
import { makeId } from '../../src/base/ids.ts';
import type { JobDraft } from '../../src/job/job.ts';
import type { Attempt } from '../../src/job/attempt.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { openReadonlyLedger } from '../../src/ledger/open-readonly.ts';
import { locateTenantLedger } from '../../src/ledger/tenant-location.ts';
import { draft } from '../support/ledger/drafts.ts';
import { launch } from '../support/crash/server.ts';
import { between } from '../support/crash/random.ts';
import { eventually, makePlace, type TestPlace } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { makeTenant, withTenantLedger } from '../support/tenant-ledgers.ts';
import { campaign, isShort } from './support/campaign.ts';

const FLOOD = isShort ? 400 : 3000;
const LITTLE = isShort ? 2 : 5;
const SLOTS = 4;
/**
 * The maximum number of flood jobs that start before a due job: each slot once for a start in
 * progress, and once while the tenant's ledger is opened.
 */
const OVERTAKEN_MAX = 2 * SLOTS;
const RSS_KIB_MAX = 512 * 1024;
const patienceMs = 100_000;
/** A slot is free four times a second at any load, so starts are counted, not the machine's speed. */
const program = python('time.sleep(1); ok()');

campaign('overload', { trials: 1, timeoutMs: 180_000 }, async ({ random }) => {
  const place = await makePlace({
    database: 'sqlite',
    plugins: { worker: { program, settings: { shared: true, parallelism: SLOTS } } },
    tenants: { trust: 'shared', idle: '200ms' },
  });
  const root = await openLedger(place.config.state, noRules);
  const [loud, quiet] = [
    await makeTenant(root, place.config),
    await makeTenant(root, place.config),
  ];
  const delays = Array.from({ length: LITTLE }, (_, n) => 1000 * n + between(random, 2000, 3000));
  await enqueue(
    place,
    loud,
    Array.from({ length: FLOOD }, () => job()),
  );
  await enqueue(
    place,
    quiet,
    delays.map((inMs) => job({ due: { inMs } })),
  );
  const nowMs = fromTimestamp(await root.now());
  await root.tenants.recordDue(loud, 'now');
  await root.tenants.recordDue(quiet, { at: toTimestamp(nowMs + Math.min(...delays)) });
  await root.close();
  const server = launch(place.directory);
  await server.ready;
  let rss = 0;
  await eventually(
    'the little that was asked for is done',
    async () => {
      rss = Math.max(rss, residentKib(server.pid));
      return (await attemptsOf(place, quiet)).length === LITTLE;
    },
    patienceMs,
  );
  await server.kill();
  const flooded = await attemptsOf(place, loud);
  const little = await attemptsOf(place, quiet);
  const left = await withTenantLedger(place.config, loud, (ledger) => ledger.jobs.countQueue());
  const total = flooded.length + left.ready + left.running + left.delayed;
  if (total !== FLOOD) throw new Error(`${total} of ${FLOOD} jobs are there`);
  if (rss > RSS_KIB_MAX) throw new Error(`the server takes ${rss} KiB`);
  const overtaken = little.map((one) => overtakersOf(one, flooded));
  if (Math.max(...overtaken) > OVERTAKEN_MAX)
    throw new Error(
      `the loud one began ${overtaken.join(', ')} jobs before those of the quiet one`,
    );
  return {
    loud: flooded.length,
    left: left.ready,
    quiet: little.length,
    overtaken,
    waitMs: little.map(({ queueMs }) => queueMs ?? 0),
    rssMib: [Math.round(rss / 1024)],
  };
});

function job(more: Partial<JobDraft> = {}): JobDraft {
  return draft({ id: makeId(), plugin: 'worker', command: 'poll', ...more });
}

function enqueue({ config }: TestPlace, slug: string, jobs: readonly JobDraft[]): Promise<unknown> {
  return withTenantLedger(config, slug, (ledger) => ledger.jobs.enqueue({ jobs }));
}

/** Reads the ledger while the server has it open. */
async function attemptsOf({ config }: TestPlace, slug: string): Promise<Attempt[]> {
  const ledger = await openReadonlyLedger(locateTenantLedger(config.state, slug));
  try {
    return await ledger.attempts.list({ limit: FLOOD });
  } finally {
    await ledger.close();
  }
}

/** The job could have started when its wait began. */
function overtakersOf({ startedAt, queueMs }: Attempt, flooded: readonly Attempt[]): number {
  if (startedAt === null) return 0;
  const begun = fromTimestamp(startedAt);
  const times = flooded.flatMap((one) =>
    one.startedAt === null ? [] : fromTimestamp(one.startedAt),
  );
  return times.filter((ms) => ms > begun - (queueMs ?? 0) && ms < begun).length;
}

function residentKib(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
}
