import { isAtLeast } from '../directive/role.ts';
import type { Principal } from '../engine/tokens.ts';
import type { SignalFilter } from '../ledger/signals.ts';
import type { Signal } from '../signal/signal.ts';
import type { Context } from './context.ts';
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

export interface SignalledWork {
  readonly sourceEventId: string | null;
  /** The run that a job is a step of. */
  readonly runId?: string | null;
}

/** Whether they see what a job or run works on: it is what the signal said that caused it. */
export async function seesWork(
  { engine: { ledger }, principal }: Pick<Context, 'engine' | 'principal'>,
  { sourceEventId, runId = null }: SignalledWork,
): Promise<boolean> {
  if (seesHidden(principal)) return true;
  const run = runId === null ? undefined : await ledger.run(runId);
  const ids = [sourceEventId, run?.sourceEventId].flatMap((id) => id ?? []);
  const causes = await Promise.all(ids.map((id) => ledger.signals({ id, limit: 1 })));
  return causes.flat().every((signal) => isVisible(signal, principal));
}
