import { isAtLeast } from './roles.ts';
import type { Principal } from './principal.service.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { SignalFilter } from '../signal/types.ts';
import type { Signal } from '../signal/signal.ts';
import type { Context } from '../operation/context.ts';
import { allows } from './scopes.ts';

/** Who may change the system is an administrator; the others never see what is for those alone. */
export function seesHidden({ scopes, role }: Principal): boolean {
  return isAtLeast(role, 'admin') || allows(scopes, 'system:rw');
}

/** What a list is narrowed down to for them. */
export function sightOf(principal: Principal): Pick<SignalFilter, 'visibility'> {
  return seesHidden(principal) ? {} : { visibility: 'internal' };
}

export function isVisible(
  { visibility }: Pick<Signal, 'visibility'>,
  principal: Principal,
): boolean {
  return visibility !== 'admin_only' || seesHidden(principal);
}

/** A job, an attempt or a part of a run, as far as it decides what a caller sees of its data. */
export interface Work {
  readonly sourceEventId: string | null;
  /** The run that a job is a step of, or the run itself. */
  readonly runId?: string | null;
  readonly actor?: string;
}

/**
 * How much a caller sees of the data of a job or run. `hidden`: an `admin_only` signal is behind it. `masked`:
 * secrets are masked as in signals. `exact`: the caller is an administrator, or asked for the work.
 */
export type Sight = 'exact' | 'masked' | 'hidden';

interface Asker {
  readonly ledger: LedgerSubset<'runs.find' | 'signals.list' | 'runs.listWaitedSignals'>;
  readonly principal: Principal;
}

/** Reads what the caller sees of each, in their order; a signal or a run is read once for all. */
export async function readSights(
  { ledger, principal }: Asker,
  works: readonly Work[],
): Promise<Sight[]> {
  if (seesHidden(principal)) return works.map(() => 'exact');
  const runs = await readEach(
    works,
    ({ runId }) => runId,
    (id) => readRun(ledger, id),
  );
  const signalsOf = ({ sourceEventId, runId }: Work): string[] => [
    ...(sourceEventId === null ? [] : [sourceEventId]),
    ...(runs.get(runId ?? '')?.signalIds ?? []),
  ];
  const isSeen = await readEach(
    works.flatMap(signalsOf),
    (id) => id,
    async (id) => {
      const [signal] = await ledger.signals.list({ id, limit: 1 });
      return signal === undefined || isVisible(signal, principal);
    },
  );
  return works.map((work) => {
    if (signalsOf(work).some((id) => isSeen.get(id) === false)) return 'hidden';
    const actors = [work.actor, runs.get(work.runId ?? '')?.actor];
    return actors.includes(principal.actor) ? 'exact' : 'masked';
  });
}

/** The signals whose data a run has: the one that started it, and those that it waited for. */
async function readRun(
  ledger: Asker['ledger'],
  id: string,
): Promise<{ readonly actor: string | undefined; readonly signalIds: readonly string[] }> {
  const [run, waited] = await Promise.all([
    ledger.runs.find(id),
    ledger.runs.listWaitedSignals(id),
  ]);
  return { actor: run?.actor, signalIds: [run?.sourceEventId ?? [], waited].flat() };
}

async function readEach<Row, Value>(
  rows: readonly Row[],
  keyOf: (row: Row) => string | null | undefined,
  read: (key: string) => Promise<Value>,
): Promise<ReadonlyMap<string, Value>> {
  const keys = [...new Set(rows.flatMap((row) => keyOf(row) ?? []))];
  const values = await Promise.all(keys.map(async (key) => [key, await read(key)] as const));
  return new Map(values);
}

/** How much the caller sees of one job or run. */
export async function readSight(
  { engine, principal }: Pick<Context, 'engine' | 'principal'>,
  work: Work,
): Promise<Sight> {
  const [sight = 'hidden'] = await readSights({ ledger: engine.ledger, principal }, [work]);
  return sight;
}
