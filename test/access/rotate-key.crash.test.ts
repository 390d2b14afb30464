/**
 * A server that is killed while it encrypts everything again: the next one completes the rotation,
 * with the same key.
 */
import { noRules } from '../../src/ledger/rules.ts';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { limits } from '../../src/base/limits.ts';
import { purposes } from '../../src/base/seal.ts';
import { makeKeyRing, makeVault } from '../../src/access/vault.service.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { makeClient } from '../support/crash/client.ts';
import { launch } from '../support/crash/server.ts';

describe.each(databases)('a server on %s that is killed while it rotates the key', (database) => {
  test.each(['rotate.after-key:kill', 'rotate.after-step:kill:2'])(
    'at %s: there is one new key, and it seals all',
    async (probe) => {
      const place = await makePlace({
        database,
        plugins: { mail: { program: succeeds } },
        service: { reap_after: '300ms' },
      });
      const { dir: directory } = place.config.state;
      const vault = makeVault(makeKeyRing({ directory, environment: {} }));
      const total = 2 * limits.bulkStepJobs + 50;
      const ids = Array.from({ length: total }, () => makeId());
      const ledger = await openLedger(place.config.state, noRules);
      await ledger.signals.emit(
        ids.map((id) => {
          const sealed = vault.seal(`"of ${id}"`, purposes.payload(id));
          const signal = { id, type: 'a.b', source: 'shop', data: '{}', hops: 1, sealed };
          return { signal: { ...signal, correlationId: id }, jobs: [], runs: [] };
        }),
      );
      await ledger.close();
      const victim = launch(place.directory, probe);
      const { control } = await victim.ready;
      await makeClient(() => control)
        .post('/credentials/rotate-key', {})
        .catch(() => 'it dies before it answers');
      expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });

      const next = launch(place.directory);
      const ready = await next.ready;
      const client = makeClient(() => ready.control);
      await eventually('the key is rotated', async () => {
        const { body } = await client.get('/directives?type=credential.rotate');
        const [one] = body['directives'] as { status: string; attempt: number }[];
        return one?.status === 'completed' && one.attempt === 2;
      });
      await next.stop();
      const file = await readFile(join(directory, 'credential.key'), 'utf8');
      expect(file.trim().split('\n')).toHaveLength(2);
      const after = await openLedger(place.config.state, noRules);
      expect(await after.seals.count()).toEqual([
        { keyId: vault.keyId, credentials: 0, payloads: total, webhooks: 0 },
      ]);
      const opened = (await after.signals.listSealedPayloads(ids)).map(({ signalId, sealed }) => [
        vault.open(sealed, purposes.payload(signalId)),
        `"of ${signalId}"`,
      ]);
      await after.close();
      expect(opened).toHaveLength(total);
      expect(opened.filter(([found, said]) => found !== said)).toEqual([]);
    },
  );
});
