/** What another host installed comes into force here, also when the first try meets a fault. */
import { expect, test } from 'vitest';
import { DuctileError, type ErrorCode } from '../../src/base/errors.ts';
import type { Log } from '../../src/base/log.ts';
import type { Blueprint } from '../../src/engine/generation.ts';
import { makeInstallationKeeper } from '../../src/package/installations.service.ts';
import type { Ledger, LedgerOverlay } from '../../src/ledger/ledger.ts';

async function triesAfter(code: ErrorCode): Promise<number> {
  let tries = 0;
  let version = 0;
  const ledger: LedgerOverlay = { installations: { readVersion: () => Promise.resolve(7) } };
  const log: Partial<Log> = { error: () => undefined };
  const keeper = makeInstallationKeeper({
    ledger: ledger as Ledger,
    isRunning: () => true,
    current: () => ({ installed: { version, refused: [] } }) as Partial<Blueprint> as Blueprint,
    compile: (config) => ({ config }) as Partial<Blueprint> as Blueprint,
    renew() {
      tries += 1;
      if (tries === 1) return Promise.reject(new DuctileError(code, 'not now'));
      version = 7;
      return Promise.resolve();
    },
    log: log as Log,
  });
  for (let looks = 0; looks < 4; looks += 1) await keeper.look();
  return tries;
}

test('a ledger that does not answer is asked again at the next look', async () => {
  expect(await triesAfter('LEDGER_UNAVAILABLE')).toBe(2);
});

test('a refused installation is not tried again until it changes', async () => {
  expect(await triesAfter('CONFIG_INVALID')).toBe(1);
});
