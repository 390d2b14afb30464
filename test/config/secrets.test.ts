/** Secrets in payloads of schedules and in steps are recorded nowhere a configuration is. */
import { describe, expect, test } from 'vitest';
import { databases, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';

const SECRET = 'hunter2-and-more';

describe.each(databases)('a configuration on %s', (database) => {
  test('is recorded without secrets, and older records lose theirs at the next start', async () => {
    const schedules = [
      { every: '1h', payload: { password: SECRET, deep: [{ apiToken: SECRET }] } },
    ];
    const place = await makePlace({
      database,
      plugins: { worker: { program: succeeds, settings: { schedules } } },
      pipelines: [
        { name: 'flow', steps: [{ uses: 'worker.poll', with: { db_password: SECRET } }] },
      ],
    });
    const first = await place.start();
    const [recorded] = await first.ledger.snapshots.list(9);
    expect(recorded?.config).toContain('db_password');
    expect(recorded?.config).not.toContain(SECRET);
    await first.close();

    const leaking = (recorded?.config ?? '').replaceAll('[redacted]', SECRET);
    await place.sql('update config_snapshots set config = ?, masked = 0', leaking);
    const second = await place.start();
    const texts = (await second.ledger.snapshots.list(9)).map(({ config }) => config);
    expect(texts).toHaveLength(2);
    for (const text of texts) {
      expect(text).toContain('db_password');
      expect(text).not.toContain(SECRET);
    }
  });
});
