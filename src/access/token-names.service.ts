import { DuctileError } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';

type Named = Pick<Config, 'api'>;

/**
 * Records the names of the configuration's tokens, so that no token of the ledger ever gets one of
 * them. A file that takes the name of a token of the ledger is refused by a reload. At a start it is
 * only reported, because the service must come up; approvals then take both tokens for one person.
 */
export async function claimConfiguredNames(
  { api }: Named,
  before: Named | undefined,
  ledger: LedgerSubset<'tokens.claimNames'>,
  log: Log,
): Promise<void> {
  const tokens = api.auth.tokens;
  if (tokens.length === 0) return;
  const taken = new Set(await ledger.tokens.claimNames(tokens.map(({ name }) => name)));
  const known = new Set(before?.api.auth.tokens.map(({ name }) => name));
  for (const { name, place } of tokens.filter((token) => taken.has(token.name))) {
    const message = `the name ${name} belongs or belonged to a token of the database`;
    const hint = 'Choose another name: names of tokens are never reused.';
    if (before !== undefined && !known.has(name)) {
      throw new DuctileError('RELOAD_REFUSED', `${place}: ${message}`, { place, hint });
    }
    log.warn(message, { place, hint });
  }
}
