import type {
  SignalDirective,
  ListSignalDirectives,
  OnSignalDirectives,
} from '../signal/signal.ts';
import type { FollowHalt, OpenSignal } from '../pipeline/run/types.ts';
import type { Store } from './dialect.ts';

/** Rules for what else a transaction writes because of an event that only the transaction itself sees. */
export interface LedgerRules {
  /** Returns the jobs and runs that follow when a run halts. */
  readonly followHalt: FollowHalt;
  /** Returns the jobs and runs that follow when a run begins to wait for a person. */
  readonly followApproval: FollowHalt;
  /** Opens the masked data of a signal for a run that waits for it. Undefined: the data stays masked. */
  readonly openSignal: OpenSignal | undefined;
  /** Returns the directives that handlers request for a signal. */
  readonly listSignalDirectives: ListSignalDirectives;
  /** Called after the commit with the directives that handlers requested. */
  readonly onSignalDirectives: OnSignalDirectives;
}

/** For tools that only read, copy or test: nothing follows from a write. */
export const noRules: LedgerRules = {
  followHalt: () => ({ jobs: [], runs: [] }),
  followApproval: () => ({ jobs: [], runs: [] }),
  openSignal: undefined,
  listSignalDirectives: () => [],
  onSignalDirectives: () => undefined,
};

/** For an engine, which needs an open ledger before it can provide its rules. A write before that fails. */
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
      const directives = rules.listSignalDirectives(signal);
      all.push(...directives);
      return directives;
    };
    const own = {
      followHalt,
      followApproval,
      listSignalDirectives,
      ...(openSignal === undefined ? {} : { openSignal }),
    };
    const result = await store.write(names, (tx) => {
      // A transaction may be repeated. Only the requests of its last attempt count.
      all = [];
      return work({ ...tx, ...own });
    });
    if (all.length > 0) rules.onSignalDirectives(all);
    return result;
  };
  return {
    store: { ...store, write },
    provideRules: (provided) => void (rules = { ...rules, ...provided }),
  };
}
