/** Refused calls are recorded: doctor names the token, the scope and the key. */
import { describe, expect, test } from 'vitest';
import { databases } from '../support/ledger/bench.ts';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';
import { dropTenants, makeTenant } from '../support/tenants.ts';

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
    // All invalid tokens share one row, so that guessing doesn't fill the table.
    expect(byCount[1]).toMatchObject({ id: 'call_refused:unknown token', count: 4 });
    expect(JSON.stringify(found)).not.toContain('wrong-1');
    await api.close();
  });

  test('an expired token is named, and a tenant has counts of its own', async () => {
    const plugins = { echo: { shared: true } };
    const api = await startApi({ database, plugins, api: { auth: { tokens } } });
    const post = async (path: string, body: object, token = OWNER) =>
      await api.ask(path, { method: 'POST', token, body: JSON.stringify(body) });
    const created = await post('/tokens', { name: 'old', scopes: ['jobs:ro'], expires: '1s' });
    const old = String(created.body['token']);
    await eventually('it is refused', async () => {
      return (await api.ask('/jobs', { token: old })).status === 401;
    });
    const [expired] = await eventually('it is found', async () => {
      const all = await findings(api, 'call_refused');
      return all.length > 0 && all;
    });
    expect(expired).toMatchObject({
      id: 'call_refused:token:old expired',
      commands: ['ductile token rotate old'],
    });

    const { slug, token: owner } = await makeTenant(api);
    const request = { name: 'shy', scopes: ['jobs:ro'] };
    const shy = String((await post('/tokens', request, owner)).body['token']);
    expect((await post('/plugin/echo/handle', {}, shy)).status).toBe(403);
    const visit = await api.server.instance.engine.tenants?.visit(slug);
    const own = await eventually('it is on record', async () => {
      const rows = (await visit?.engine.ledger.observations.list('call_refused')) ?? [];
      return rows.length > 0 && rows;
    });
    visit?.end();
    expect(own).toMatchObject([{ key: expect.stringContaining('token:shy') as string, count: 1 }]);
    expect(JSON.stringify(await findings(api, 'call_refused'))).not.toContain('shy');
    const { state } = api.server.instance.config;
    await api.close();
    await dropTenants(state, [slug]);
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
