import { hash } from 'node:crypto';
import { limits } from '../base/limits.ts';

/** Failed token checks by address, so that tokens can't be guessed and valid ones keep working. */
export interface Tries {
  /**
   * Returns what `look` finds, or 'spent' for a wrong token from an address with too many failures.
   * A token is verified before its address counts. The exception are tokens short enough to be
   * guessed: while the address is over its limit, they are verified only if they were valid before.
   */
  spend<T>(
    address: string,
    token: string,
    look: () => Promise<T | undefined>,
  ): Promise<T | 'spent' | undefined>;
}

interface Account {
  failures: number;
  /** When `failures` was computed. */
  at: number;
}

export function makeTries(now: () => number = () => performance.now()): Tries {
  const accounts = new Map<string, Account>();
  const proven = new Set<string>();
  const open = (address: string): Account => {
    const account = accounts.get(address) ?? { failures: 0, at: now() };
    const healed = ((now() - account.at) / limits.wrongTokensMs) * limits.wrongTokensMax;
    account.failures = Math.max(0, account.failures - healed);
    account.at = now();
    // Insert at the end, so that the address that was quiet for longest is dropped first.
    accounts.delete(address);
    accounts.set(address, account);
    dropOldest(accounts);
    return account;
  };
  return {
    async spend(address, token, look) {
      const account = open(address);
      const isSpent = account.failures >= limits.wrongTokensMax;
      const digest =
        token.length < limits.tokenGuessableChars ? hash('sha256', token, 'base64') : undefined;
      if (isSpent && digest !== undefined && !proven.has(digest)) return 'spent';
      // Count before the check, or as many as arrive at once would all be checked.
      if (!isSpent) account.failures += 1;
      let isWrong = false;
      try {
        const found = await look();
        isWrong = found === undefined;
        if (digest !== undefined) {
          if (isWrong) proven.delete(digest);
          else dropOldest(proven.add(digest));
        }
        return isWrong && isSpent ? 'spent' : found;
      } finally {
        if (!isWrong && !isSpent) account.failures = Math.max(0, account.failures - 1);
      }
    },
  };
}

function dropOldest(kept: Map<string, unknown> | Set<string>): void {
  if (kept.size <= limits.wrongTokenAddressesMax) return;
  for (const oldest of kept.keys()) {
    kept.delete(oldest);
    return;
  }
}
