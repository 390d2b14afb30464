/** A token of one tenant can reach nothing of another, over any surface. */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { roles, roleScopes } from '../../src/base/roles.ts';
import { isOffered, type HttpSurface, type Operation } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { allows } from '../../src/access/scopes.ts';
import { OWNER, startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { databases, eventually } from '../support/instance.ts';
import { dropTenants, makeTenant, type TestTenant } from '../support/tenants.ts';

/** In everything that the first tenant says. */
const MARK = 'mark-of-the-first';

interface Place {
  readonly operation: Operation;
  readonly surface: HttpSurface;
}

const places: readonly Place[] = operations.flatMap((operation) =>
  isOffered(operation.http) ? [{ operation, surface: operation.http }] : [],
);
const reads = places.filter(({ surface }) => surface.method === 'GET');
const named = ({ surface }: Place) => surface.path.includes(':');

/** A few at a time: there are many, and each alone would wait for the others. */
async function inTurns<T>(list: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < list.length; at += 20) await Promise.all(list.slice(at, at + 20).map(work));
}

describe.each(databases)('on %s', (database) => {
  let api: TestApi;
  let first: TestTenant;
  let second: TestTenant;
  /** By the name of their field. */
  let ids: Record<string, string>;

  beforeAll(async () => {
    api = await startApi({
      database,
      plugins: { echo: { shared: true }, teller: { shared: true } },
      pipelines: [{ name: 'flow', shared: true, steps: [{ id: 'one', uses: 'echo.poll' }] }],
    });
    first = await makeTenant(api, { title: 'First' });
    second = await makeTenant(api, { title: 'Second' });
    ids = await fill(first);
  });
  afterAll(async () => {
    const { state } = api.server.instance.config;
    await api.close();
    await dropTenants(state, [first.slug, second.slug]);
  });

  async function fill(tenant: TestTenant): Promise<Record<string, string>> {
    const job = await tenant.post('/plugin/echo/handle', { payload: { message: MARK } });
    const run = await tenant.post('/pipeline/flow', { payload: { message: MARK } });
    const signal = await tenant.post('/signals', {
      type: 'thing.seen',
      source: 'test',
      subject: { type: 'thing', id: MARK },
      data: { said: MARK },
    });
    const paused = await tenant.post('/directives', {
      type: 'plugin.disable',
      params: { plugin: 'teller' },
      idempotency_key: MARK,
    });
    await tenant.makeToken(MARK, { role: 'member' });
    for (const reply of [job, run, signal, paused]) expect(reply.status).toBeLessThan(300);
    const jobId = String(job.body['job_id']);
    await eventually('its job is done', async () => {
      const { body } = await tenant.ask(`/job/${jobId}`);
      return body['status'] === 'succeeded';
    });
    return {
      job_id: jobId,
      run_id: String(run.body['run_id']),
      signal_id: String(signal.body['signal_id']),
      directive_id: String(paused.body['directive_id']),
    };
  }

  /** Every id of the first tenant in every position of an id. */
  function pathsOf({ surface }: Place): string[] {
    return Object.values(ids)
      .concat(MARK)
      .map((id) => surface.path.replaceAll(/:\w+\??/g, encodeURIComponent(id)));
  }

  const hasSecret = ({ text }: Reply, asked: string): boolean => {
    const words = [MARK, ...Object.values(ids), first.slug].filter((word) => !asked.includes(word));
    return words.some((word) => text.includes(word));
  };

  test('the first sees what it did', async () => {
    expect((await first.ask('/jobs')).text).toContain(ids['job_id']);
    expect((await first.ask(`/signals/${ids['signal_id']}`)).text).toContain(MARK);
    expect((await first.ask('/tokens')).text).toContain(MARK);
  });

  test("no read shows a tenant's data to another tenant, to a stranger or to the operator", async () => {
    const seen: string[] = [];
    const requests = reads.flatMap((place) => {
      const paths = named(place) ? pathsOf(place) : [place.surface.path];
      // Operations for the operator alone reveal nothing to others.
      const tokens = [
        second.token,
        ...(place.operation.isForRoot === true ? [] : [OWNER, undefined]),
      ];
      return paths.flatMap((path) => tokens.map((token) => ({ path, token })));
    });
    await inTurns(requests, async ({ path, token }) => {
      const reply = await api.ask(path, { token, headers: { accept: 'application/json' } });
      // The operator knows which tenants there are, and nothing of what is in them.
      const known = token === OWNER ? path + first.slug : path;
      if (hasSecret(reply, known)) seen.push(`${path} ${token ?? 'nobody'} ${reply.text}`);
    });
    expect(seen).toEqual([]);
  });

  test("no change reaches another tenant's data", async () => {
    const before = await Promise.all(['/jobs', '/directives', '/tokens', '/runs'].map(read));
    const done: string[] = [];
    const writes = places.filter((place) => place.surface.method === 'POST' && named(place));
    await inTurns(writes.flatMap(pathsOf), async (path) => {
      const reply = await second.post(path, {});
      if (reply.status < 400) done.push(`${path} ${reply.status}`);
      expect(hasSecret(reply, path)).toBe(false);
    });
    expect(done).toEqual([]);
    expect(await Promise.all(['/jobs', '/directives', '/tokens', '/runs'].map(read))).toEqual(
      before,
    );
  });

  /** Without what looking at it changes. */
  async function read(path: string): Promise<string> {
    const { text } = await first.ask(path);
    return text.replaceAll(/"(last_used_at|\w*heartbeat\w*)":("[^"]*"|null)/g, '');
  }

  test('the same names are two things', async () => {
    const { body } = await second.ask('/plugins');
    expect(JSON.stringify(body)).toContain('teller');
    const run = await second.post('/plugin/teller/poll', {});
    const jobId = String(run.body['job_id']);
    // The plugin is disabled in the first tenant only.
    await eventually('it is done', async () => {
      const reply = await second.ask(`/job/${jobId}`);
      return reply.body['status'] === 'succeeded';
    });
    expect((await first.ask(`/job/${jobId}`)).status).toBe(404);
    expect((await api.ask(`/job/${jobId}`)).status).toBe(404);
  });

  test('X-04: what a request says of tenants changes nothing', async () => {
    for (const name of ['x-tenant', 'x-tenant-id', 'x-org', 'x-forwarded-tenant', 'tenant']) {
      const headers = { [name]: first.slug };
      const { body } = await api.ask(`/job/${ids['job_id']}`, { token: second.token, headers });
      expect(body).toMatchObject({ code: 'JOB_NOT_FOUND' });
    }
    const query = await second.ask(`/jobs?tenant=${first.slug}`);
    expect(query.status === 400 || !hasSecret(query, query.text)).toBe(true);
    expect((await second.ask(`/jobs?tenant=${first.slug}`)).text).not.toContain(ids['job_id']);
    const sent = await second.post('/signals', {
      type: 'thing.seen',
      source: 'test',
      data: {},
      tenant: first.slug,
    });
    expect(sent.status).toBe(400);
  });

  test('operations on the process are for the operator alone', async () => {
    for (const { operation, surface } of places) {
      if (operation.isForRoot !== true) continue;
      const path = surface.path.replaceAll(/:\w+\??/g, first.slug);
      const reply =
        surface.method === 'GET'
          ? await first.ask(path)
          : await first.post(path, { slug: 'x', confirm: 'x', to: '/tmp/x', name: 'x' });
      expect([path, reply.body['code'] === 'INPUT_INVALID' ? 403 : reply.status]).toEqual([
        path,
        403,
      ]);
    }
    const types = ['tenant.create', 'tenant.delete', 'config.reload'];
    for (const type of types) {
      const reply = await first.post('/directives', { type, params: { slug: 'x', confirm: 'x' } });
      expect(reply.body).toMatchObject({ code: 'INPUT_INVALID' });
    }
  });

  test('each role sees what its scopes say', async () => {
    const wrong: string[] = [];
    for (const role of roles) {
      const may = role === 'service' ? { role, scopes: ['jobs:ro'] } : { role };
      const token = await first.makeToken(`as-${role}`, may);
      const scopes = [...roleScopes[role], ...(may.scopes ?? [])];
      const plain = reads.filter((place) => !named(place) && place.operation.isForRoot !== true);
      await inTurns(plain, async ({ operation: { scope }, surface: { path } }) => {
        if (typeof scope !== 'string') return;
        const { status } = await api.ask(path, { token, headers: { accept: 'application/json' } });
        if ((status === 403) === allows(scopes, scope)) wrong.push(`${role} ${path} ${status}`);
      });
    }
    expect(wrong).toEqual([]);
  });

  test('a stream shows what happens in its own ledger, and keeps that awake', async () => {
    const stream = await follow(second.token);
    await first.post('/signals', { type: 'thing.seen', source: 'test', data: { said: MARK } });
    await second.post('/signals', { type: 'thing.own', source: 'test', data: {} });
    await eventually('it shows its own', () => stream.text().includes('thing.own'));
    expect(stream.text()).not.toContain(MARK);
    expect(stream.text()).not.toContain('thing.seen');
    const { body } = await api.ask(`/tenants/${second.slug}`);
    expect(body).toMatchObject({ awake: true });
    stream.close();
  });

  async function follow(token: string): Promise<{ text: () => string; close: () => void }> {
    const outgoing = request({
      port: api.port,
      host: '127.0.0.1',
      path: '/events',
      agent: false,
      headers: { authorization: `Bearer ${token}` },
    });
    outgoing.end();
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    let text = '';
    response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    outgoing.on('error', () => undefined);
    response.on('error', () => undefined);
    return { text: () => text, close: () => void outgoing.destroy() };
  }
});
