import { isAtLeast } from '../directive/role.ts';
import type { Principal } from '../engine/tokens.ts';
import type { SignalFilter } from '../ledger/signals.ts';
import type { Signal } from '../signal/signal.ts';
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
