/** Drafts of schedules for tests of a ledger. */
import { makeId } from '../../../src/base/ids.ts';
import type { ClaimedJob } from '../../../src/job/types.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import type {
  DueSchedule,
  FireResult,
  Firing,
  FiringAct,
  ScheduleDraft,
} from '../../../src/schedule/types.ts';
import { only } from './bench.ts';
import { claimAs, draft } from './drafts.ts';

export const PAST = '2026-01-01T00:00:00.000Z';
export const NOW = '2026-01-01T00:00:10.000Z';
export const LATER = '2026-01-01T01:00:00.000Z';

export function entry(overrides: Partial<ScheduleDraft> = {}): ScheduleDraft {
  return {
    plugin: 'echo',
    scheduleId: 'default',
    command: 'poll',
    mode: 'cron',
    timing: '0 * * * *',
    timezone: 'UTC',
    generation: 'g1',
    invalid: undefined,
    next: { slotAt: PAST, dueAt: PAST },
    seenAt: PAST,
    ...overrides,
  };
}

type FireAct = Extract<FiringAct, { kind: 'fire' }>;

/** Creates the firing of a due schedule. */
export function firing(found: DueSchedule, overrides: Partial<FireAct> = {}): Firing {
  const slot = `${found.generation}:${found.seq}`;
  const job = draft({
    id: makeId(),
    plugin: found.plugin,
    command: 'poll',
    submittedBy: 'scheduler',
    maxAttempts: 1,
    schedule: { id: found.scheduleId, slot },
  });
  const next = { slotAt: LATER, dueAt: LATER };
  return {
    due: found,
    command: 'poll',
    next,
    nextIfSkipped: next,
    act: {
      kind: 'fire',
      jobs: [job],
      guard: { ifRunning: 'skip', outstandingMax: 1 },
      breaker: { threshold: 2, resetAfterMs: 60_000 },
      needsLastUnchanged: false,
      ...overrides,
    },
  };
}

export async function due(ledger: Ledger, now = NOW): Promise<readonly DueSchedule[]> {
  return (await ledger.schedules.listDue({ now, limit: 100 })).due;
}

/** Fires the only due schedule. */
export async function fireOne(
  ledger: Ledger,
  overrides: Partial<FireAct> = {},
  now = NOW,
): Promise<FireResult> {
  const found = only(await due(ledger, now));
  return only(await ledger.schedules.fire({ now, firings: [firing(found, overrides)] }));
}

/** Makes the only schedule due again. */
export async function dueAgain(sql: (text: string) => Promise<unknown>): Promise<void> {
  await sql(`update schedules set next_due_at = '${PAST}', next_slot_at = '${PAST}'`);
}

export async function startFired(ledger: Ledger): Promise<ClaimedJob> {
  return only(await claimAs(ledger, 'p1', { slots: 1 }));
}
