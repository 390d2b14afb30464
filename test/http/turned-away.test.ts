/** What a running service turns away is on record: doctor names the token, the scope and the key. */
import { describe, expect, test } from 'vitest';
import { databases } from '../conformance/support.ts';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';

const CI = 'ci-token-00000000000';

const tokens = [
  { name: 'owner', token: OWNER, scopes: ['*'] },
  { name: 'ci', token: CI, scopes: ['jobs:ro'] },
];

interface Finding {
  readonly id: string;
  readonly message: string;
  readonly evidence: string;
  readonly commands: readonly string[];
  readonly count: number;
}

async function findings(api: TestApi, kind: string): Promise<Finding[]> {
  const { body } = await api.ask('/system/doctor');
  const found = body['findings'] as Finding[];
  return found.filter(({ id }) => id.startsWith(`${kind}:`));
}

describe.each(databases)('on %s', (database) => {
  test('refused calls are counted by token and operation, with the smallest scope', async () => {
    const api = await startApi({ database, api: { auth: { tokens } } });
    const run = { method: 'POST', token: CI, body: '{}' };
    for (let count = 0; count < 3; count += 1) {
      const { status, body } = await api.ask('/plugin/echo/handle', run);
      expect(status).toBe(403);
      expect(body['hint']).toBe(
        'Use a token with the scope echo:rw, or echo:allow:handle for this command alone.',
      );
    }
    for (const wrong of ['wrong-1', 'wrong-2', 'wrong-3', 'wrong-4']) {
      expect((await api.ask('/jobs', { token: wrong })).status).toBe(401);
    }
    const found = await eventually('both are found', async () => {
      const all = await findings(api, 'call_refused');
      return all.length === 2 && all;
    });
    const byCount = found.toSorted((a, b) => a.count - b.count);
    expect(byCount[0]).toMatchObject({ count: 3 });
    expect(byCount[0]?.message).toMatch(
      /^The token ci was refused 3 times in the last hour for .*: it needs the scope echo:rw\.$/,
    );
    expect(byCount[0]?.commands).toEqual([
      `ductile config set 'api.auth.tokens.1.scopes=["jobs:ro","echo:rw"]' --apply && ductile system reload`,
      "ductile incident acknowledge 'call_refused:token:ci plugin.run echo:rw'",
    ]);
    // All wrong tokens together: who guesses fills nothing.
    expect(byCount[1]).toMatchObject({ id: 'call_refused:unknown token', count: 4 });
    expect(JSON.stringify(found)).not.toContain('wrong-1');
    await api.close();
  });

  test('a dedupe key that drops different work is named with the job that holds it', async () => {
    const api = await startApi({ database, api: { auth: { tokens } } });
    const submit = async (message: string) => {
      const body = JSON.stringify({ payload: { message } });
      const path = '/plugin/echo/handle?dedupe_key=all&dedupe_ttl=1h';
      return (await api.ask(path, { method: 'POST', body })).body;
    };
    const first = await submit('same');
    for (let count = 0; count < 4; count += 1) await submit('same');
    for (const message of ['b', 'c', 'd']) await submit(message);
    const [found] = await eventually('it is found', async () => {
      const all = await findings(api, 'work_suppressed');
      return all.length > 0 && all;
    });
    expect(found?.message).toContain('The dedupe key all of echo/handle is too wide');
    expect(found?.evidence).toContain(`job ${String(first['job_id'])} holds the key`);
    await api.close();
  });
});
