import { hash } from 'node:crypto';
import { limits } from '../base/limits.ts';

/** Counts wrong tokens by address, so that guessing takes for ever. */
export interface Tries {
  /**
   * What `look` finds, or 'spent' when this address has shown too many wrong tokens lately. A token
   * that was good here before is looked at all the same: who guesses behind a proxy shuts nobody out.
   */
  spend<T>(
    address: string,
    token: string,
    look: () => Promise<T | undefined>,
  ): Promise<T | 'spent' | undefined>;
}

interface Account {
  count: number;
  /** When the count was that. */
  at: number;
}

export function makeTries(now: () => number = () => performance.now()): Tries {
  const accounts = new Map<string, Account>();
  const proven = new Set<string>();
  const open = (address: string): Account => {
    const account = accounts.get(address) ?? { count: 0, at: now() };
    const healed = ((now() - account.at) / limits.wrongTokensMs) * limits.wrongTokensMax;
    account.count = Math.max(0, account.count - healed);
    account.at = now();
    // Behind all others, so that the one that was longest quiet is forgotten first.
    accounts.delete(address);
    accounts.set(address, account);
    forgetOldest(accounts);
    return account;
  };
  return {
    async spend(address, token, look) {
      const digest = hash('sha256', token, 'base64');
      if (proven.has(digest)) {
        const found = await look();
        if (found !== undefined) return found;
        proven.delete(digest);
      }
      const account = open(address);
      if (account.count >= limits.wrongTokensMax) return 'spent';
      // Before it is looked at, or as many as come at once would all be.
      account.count += 1;
      let isWrong = false;
      try {
        const found = await look();
        isWrong = found === undefined;
        if (!isWrong) forgetOldest(proven.add(digest));
        return found;
      } finally {
        if (!isWrong) account.count -= 1;
      }
    },
  };
}

function forgetOldest(kept: Map<string, unknown> | Set<string>): void {
  if (kept.size <= limits.wrongTokenAddressesMax) return;
  for (const oldest of kept.keys()) {
    kept.delete(oldest);
    return;
  }
}
