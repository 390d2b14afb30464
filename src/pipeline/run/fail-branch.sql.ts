import { parseJson } from '../../base/parse-json.ts';
import type { Arrival } from './transition.ts';
import type { Effects } from './changes.sql.ts';
import { moveOn } from './apply.sql.ts';
import type { Stand } from './load-branch.sql.ts';

type Failed = Extract<Arrival, { readonly kind: 'failed' }>;

/** Kept by a branch that cannot go on, until those of its block that were begun have ended. */
export interface Failing {
  readonly kind: 'failing';
  readonly arrival: Failed;
  /** What was left to be done with it. */
  readonly left: string | null;
}

/** Nothing more of its block is begun; when the last that was begun has ended, it halts. */
export function failBranch(effects: Effects, stand: Stand, arrival: Failed): void {
  const { branch } = stand;
  const underWay = branch.block === null ? 0 : branch.pending - (branch.width - branch.cursor);
  if (underWay === 0) {
    moveOn(effects, stand, { arrival });
    return;
  }
  const failing: Failing = { kind: 'failing', arrival, left: branch.outcome };
  const waiting = {
    ...branch,
    status: 'waiting',
    pending: underWay,
    outcome: JSON.stringify(failing),
    due: undefined,
    wasPlain: false,
    claimToken: null,
    claimedBy: null,
    tries: 0,
    crashes: 0,
  } as const;
  effects.put(waiting, false);
}

export function failingOf(outcome: string | null): Failing | undefined {
  return outcome?.startsWith('{"kind":"failing"') === true
    ? (parseJson(outcome) as Failing)
    : undefined;
}
