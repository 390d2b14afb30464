import type {
  SignalDirective,
  ListSignalDirectives,
  OnSignalDirectives,
} from './directive-work.ts';
import type { FollowHalt, OpenSignal } from '../pipeline/run/types.ts';
import type { Store } from './dialect.ts';

/** What else a transaction writes because of what happens in it. Only the transaction itself knows. */
export interface LedgerRules {
  /** Returns the jobs and runs that follow when a run halts. */
  readonly followHalt: FollowHalt;
  /** Returns the jobs and runs that follow when a run begins to wait for a person. */
  readonly followApproval: FollowHalt;
  /** Opens the masked data of a signal for a run that waits for it. Undefined: the data stays masked. */
  readonly openSignal: OpenSignal | undefined;
  /** Returns the directives that a signal asks for. */
  readonly listSignalDirectives: ListSignalDirectives;
  /** Called after the commit with the directives that signals asked for. */
  readonly onSignalDirectives: OnSignalDirectives;
}

/** For tools that only look, copy or test: nothing follows from a write. */
export const noRules: LedgerRules = {
  followHalt: () => ({ jobs: [], runs: [] }),
  followApproval: () => ({ jobs: [], runs: [] }),
  openSignal: undefined,
  listSignalDirectives: () => [],
  onSignalDirectives: () => undefined,
};

/** For an engine, which is built over an open ledger and then provides its rules. A write before that fails. */
export const engineRules: LedgerRules = {
  followHalt: refuseWrite,
  followApproval: refuseWrite,
  openSignal: refuseWrite,
  listSignalDirectives: refuseWrite,
  onSignalDirectives: refuseWrite,
};

function refuseWrite(): never {
  throw new Error('the engine has not provided the rules of its ledger yet');
}

/** Gives each transaction of a store the rules. */
export function applyRules(
  store: Store,
  first: LedgerRules,
): { readonly store: Store; readonly provideRules: (rules: Partial<LedgerRules>) => void } {
  let rules = first;
  const write: Store['write'] = async (names, work) => {
    const { followHalt, followApproval, openSignal } = rules;
    let all: SignalDirective[] = [];
    const listSignalDirectives: ListSignalDirectives = (signal) => {
      const asked = rules.listSignalDirectives(signal);
      all.push(...asked);
      return asked;
    };
    const own = {
      followHalt,
      followApproval,
      listSignalDirectives,
      ...(openSignal === undefined ? {} : { openSignal }),
    };
    const result = await store.write(names, (tx) => {
      // A repeated transaction counts only with what its last attempt asks for.
      all = [];
      return work({ ...tx, ...own });
    });
    if (all.length > 0) rules.onSignalDirectives(all);
    return result;
  };
  return {
    store: { ...store, write },
    provideRules: (given) => void (rules = { ...rules, ...given }),
  };
}
