/** Measures the cost of one scheduler tick, with many schedules of which some are due. */
import { noRules } from '../../src/ledger/rules.ts';
import { CommitBus } from '../../src/engine/commit-events.ts';
import type { LedgerContext } from '../../src/engine/context.ts';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { setImmediate as turn } from 'node:timers/promises';
import { z } from 'zod';
import { makeLogger } from '../../src/base/log.ts';
import type { Config } from '../../src/config/config.ts';
import { makeScheduler } from '../../src/schedule/scheduler.service.ts';
import { openLedger } from '../../src/ledger/open.ts';
import type { Catalog } from '../../src/plugin/catalog.ts';
import { scheduleEntry, toSchedule } from '../../src/schedule/entry.ts';
import { measure, round } from './harness.ts';

const shape = z.object({ path: z.string(), schedules: z.number(), due: z.number() });
const MORNING = Date.parse('2026-11-16T06:00:00Z');
/** Time of the warm-up tick, in which Node compiles the code. */
const WARM_UP = Date.parse('2026-11-16T11:00:00Z');
const NOON = Date.parse('2026-11-16T12:00:00Z');
const PLUGINS = 100;

await measure(shape, async ({ path, schedules, due }) => {
  const ledger = await openLedger({ kind: 'sqlite', path }, noRules);
  let nowMs = MORNING;
  const context = {
    ledger,
    processId: 'bench',
    commits: new CommitBus(),
    ...configured(schedules, due),
    log: makeLogger({ level: 'error', format: 'json' }),
  } as unknown as LedgerContext;
  const scheduler = makeScheduler(
    context,
    () => undefined,
    () => Promise.resolve(nowMs),
  );
  for (nowMs of [MORNING, WARM_UP]) await scheduler.tick();
  nowMs = NOON;
  const delay = monitorEventLoopDelay({ resolution: 1 });
  await turn();
  delay.enable();
  const before = performance.eventLoopUtilization();
  const { fired } = await scheduler.tick();
  const { active } = performance.eventLoopUtilization(before);
  delay.disable();
  await ledger.close();
  if (fired !== due) throw new Error(`${fired} were fired instead of ${due}`);
  return { loopMs: round(active), longestMs: round(delay.max / 1e6) };
});

function hourOf(index: number, due: number): number {
  if (index < due) return 12;
  return index < 2 * due ? 11 : 13;
}

/** Configures schedules: `due` of them at 11:00 (warm-up) and 12:00, the others at 13:00. */
function configured(schedules: number, due: number): { config: Config; catalog: Catalog } {
  const entries = Array.from({ length: schedules }, (_, index) =>
    toSchedule(scheduleEntry.parse({ id: `s${index}`, cron: `0 ${hourOf(index, due)} * * *` })),
  );
  const plugins = Array.from({ length: PLUGINS }, (_, index) => [
    `plugin-${index}`,
    {
      enabled: true,
      schedules: entries.filter((_entry, at) => at % PLUGINS === index),
      retry: { maxAttempts: 4, backoffBaseMs: 1000 },
      circuitBreaker: { threshold: 3, resetAfterMs: 1000 },
      maxOutstandingPolls: 1,
    },
  ]);
  const service = { tickIntervalMs: 60_000, timezone: 'UTC', reapAfterMs: 30_000 };
  const config = { service, plugins: Object.fromEntries(plugins) } as unknown as Config;
  const known = plugins.map(([name]) => [name, { manifest: { commands: { poll: {} } } }] as const);
  const catalog = { plugins: new Map(known as never), problems: [] } as unknown as Catalog;
  return { config, catalog };
}
