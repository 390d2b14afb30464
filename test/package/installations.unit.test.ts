/** An installation of another host becomes active here, even if the first try meets a fault. */
import { makeContext } from '../support/context.ts';
import { expect, test } from 'vitest';
import { DuctileError, type ErrorCode } from '../../src/base/errors.ts';
import type { Log } from '../../src/base/log.ts';
import type { Blueprint, Generation } from '../../src/engine/generation.ts';
import { makeActiveInstallations } from '../../src/package/installations.service.ts';
import type { LedgerOverlay } from '../../src/ledger/ledger.ts';

async function triesAfter(code: ErrorCode): Promise<number> {
  let tries = 0;
  let version = 0;
  const ledger: LedgerOverlay = { installations: { readVersion: () => Promise.resolve(7) } };
  const log: Partial<Log> = { error: () => undefined };
  const context = makeContext({ ledger, log: { child: () => log } as unknown as Log });
  const look = (): Promise<void> => {
    context.generation = {
      installed: { version, refused: [] },
    } as Partial<Generation> as Generation;
    return installations.renewIfChanged(renew);
  };
  const installations = makeActiveInstallations(
    context,
    (config) => ({ config }) as Partial<Blueprint> as Blueprint,
  );
  const renew = (): Promise<void> => {
    tries += 1;
    if (tries === 1) return Promise.reject(new DuctileError(code, 'not now'));
    version = 7;
    return Promise.resolve();
  };
  for (let looks = 0; looks < 4; looks += 1) await look();
  return tries;
}

test('a ledger that does not answer is asked again at the next look', async () => {
  expect(await triesAfter('LEDGER_UNAVAILABLE')).toBe(2);
});

test('a refused installation is not tried again until it changes', async () => {
  expect(await triesAfter('CONFIG_INVALID')).toBe(1);
});
