/** Secrets in the data of jobs and runs, and data for administrators alone, in everything that can be read. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isOffered } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { OWNER, startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { databases, eventually } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';

/** Repeats its payload wherever a plugin can say something. */
const mirror = python(`
print(json.dumps(payload), file=sys.stderr)
if payload.get("fails", payload.get("payload", {}).get("fails")):
    fail(json.dumps(payload), retry=False)
ok(json.dumps(payload), logs=[{"level": "info", "message": json.dumps(payload)}])`);

const READER = 'reader-token-0123456789';
const CALLER = 'caller-token-0123456789';
/** In a shape that is recognized in any text. */
const SECRET = `ghp_${'a1B2c3D4e5F6'.repeat(3)}`;
const CLASSIFIED = 'classified-987654';

describe.each(databases)('on %s', (database) => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi({
      database,
      prepare: async (directory) => {
        await writePlugin(join(directory, 'plugins', 'mirror'), {
          name: 'mirror',
          entrypoint: 'run',
          program: mirror,
          commands: 'commands: {handle: {}, run: {}}',
        });
      },
      pipelines: [
        {
          name: 'mirrors',
          on: 'staff.run',
          steps: [{ uses: 'mirror.run' }, { uses: 'mirror.run' }],
        },
        {
          name: 'waits',
          steps: [
            { id: 'news', wait: { signal: 'staff.news' } },
            { id: 'after', uses: 'mirror.run' },
          ],
        },
      ],
      routes: [{ event_type: 'staff.job', to: 'mirror' }],
      api: {
        auth: {
          tokens: [
            { name: 'owner', token: OWNER, scopes: ['*'] },
            { name: 'reader', token: READER, scopes: ['read:*'] },
            { name: 'caller', token: CALLER, scopes: ['plugin:rw', 'jobs:ro', 'runs:ro'] },
          ],
        },
      },
    });
  });
  afterAll(() => api.close());

  const post = (path: string, body: object, token: string = OWNER): Promise<Reply> =>
    api.ask(path, { body: JSON.stringify(body), token });
  const ids = async (path: string, list: string, field: string): Promise<string[]> =>
    ((await api.ask(path)).body[list] as Record<string, unknown>[]).map((row) =>
      String(row[field]),
    );

  /** Everything that a token can read, by every operation over every id. */
  async function readAll(token: string): Promise<Map<string, string>> {
    const jobs = await ids('/jobs?limit=100', 'jobs', 'job_id');
    const runs = await ids('/runs?limit=100', 'runs', 'run_id');
    const signals = await ids('/signals?limit=100', 'signals', 'signal_id');
    const names = [...jobs, ...runs, ...signals, 'mirror', 'hook'];
    const paths = operations.flatMap(({ http, effect }) => {
      if (effect !== 'read' || !isOffered(http) || http.method !== 'GET') return [];
      if (http.isStream === true) return [`${http.path}?after=start`];
      if (!http.path.includes(':')) return [http.path];
      return names.map((name) => http.path.replace(/:\w+\??/, name).replace(/:\w+\??/, 'handle'));
    });
    const headers = { accept: 'application/json' };
    const sources = new Map<string, string>();
    for (const path of paths) sources.set(path, (await api.ask(path, { token, headers })).text);
    return sources;
  }

  const leaks = (told: ReadonlyMap<string, string>, word: string): string[] =>
    [...told].filter(([, text]) => text.includes(word)).map(([path]) => path);

  async function settled(): Promise<void> {
    await eventually('everything has ended', async () => {
      const { ledger } = api.server.instance.engine;
      const open = await ledger.jobs.list({ status: ['queued', 'running'], limit: 1 });
      const runs = await ledger.runs.list({ status: ['queued', 'running'], limit: 1 });
      return open.length + runs.length === 0;
    });
  }

  test('a webhook delivery is masked for readers, wherever it shows up', async () => {
    const webhook = { title: 'T', auth_mode: 'gitlab' };
    const targets = [
      ['hook', { plugin: 'mirror', command: 'run' }],
      ['fails', { plugin: 'mirror', command: 'run' }],
      ['flow', { pipeline: 'mirrors' }],
    ] as const;
    for (const [id, target] of targets) {
      const made = await post('/webhooks', { id, ...webhook, ...target });
      const body = JSON.stringify({ password: SECRET, note: 'harmless', fails: id === 'fails' });
      const headers = { 'x-gitlab-token': String(made.body['secret']) };
      const sent = await api.ask(`/hooks/${id}`, { token: undefined, body, headers });
      expect(sent.status).toBe(202);
    }
    await settled();
    const [job = ''] = await ids('/jobs?status=succeeded', 'jobs', 'job_id');
    const [run = ''] = await ids('/runs', 'runs', 'run_id');
    const asReader = await readAll(READER);
    expect(leaks(asReader, SECRET)).toEqual([]);
    expect(asReader.get(`/job/${job}`)).toContain('harmless');
    expect(asReader.get(`/runs/${run}`)).toContain('harmless');
    const asOwner = await readAll(OWNER);
    expect(leaks(asOwner, SECRET)).toEqual(
      expect.arrayContaining([`/job/${job}`, `/runs/${run}`, '/job-logs']),
    );
    // By the beginning of an id, and as a tool of an agent, it is the same.
    expect((await api.ask(`/job/${job.slice(0, -3)}`, { token: READER })).text).not.toContain(
      SECRET,
    );
  });

  test('a search finds nothing in errors that the caller cannot read', async () => {
    const payload = { password: SECRET, note: 'harmless', fails: true };
    await post('/plugin/mirror/run', { payload });
    await settled();
    const search = async (query: string, token: string): Promise<unknown[]> => {
      const { body } = await api.ask(`/jobs?query=${query}`, { token });
      return [(body['jobs'] as unknown[]).length > 0, Number(body['total']) > 0];
    };
    expect(await search('harmless', READER)).toEqual([true, true]);
    expect(await search(SECRET, OWNER)).toEqual([true, true]);
    expect(await search(SECRET, READER)).toEqual([false, false]);
    // Nor does the cursor show that a row matched.
    const { body } = await api.ask(`/jobs?query=${SECRET}&limit=1`, { token: READER });
    expect(body['next_cursor']).toBeNull();
  });

  test("a search in logs finds nothing that the caller can't read, and its cursor reveals nothing", async () => {
    const payload = { password: SECRET, note: 'harmless', fails: true };
    await post('/plugin/mirror/run', { payload });
    await settled();
    const search = async (query: string, token: string): Promise<unknown[]> => {
      const { body } = await api.ask(`/job-logs?limit=1&query=${query}`, { token });
      return [(body['logs'] as unknown[]).length, body['next_cursor'] !== null];
    };
    expect(await search('harmless', READER)).toEqual([1, true]);
    expect(await search(SECRET, OWNER)).toEqual([1, true]);
    expect(await search(SECRET, READER)).toEqual(await search('nowhere-to-be-found', READER));
    expect(await search(SECRET, READER)).toEqual([0, false]);
  });

  test('a caller reads back its own job and run as they are', async () => {
    const made = await post('/plugin/mirror/run', { payload: { password: SECRET } }, CALLER);
    await settled();
    const at = `/job/${String(made.body['job_id'])}`;
    expect((await api.ask(at, { token: CALLER })).text).toContain(SECRET);
    expect((await api.ask(at, { token: READER })).text).not.toContain(SECRET);
    const ran = await post(
      '/plugin/mirror/run?wait=true',
      { payload: { password: SECRET } },
      CALLER,
    );
    expect(ran.text).toContain(SECRET);
  });

  test('a duplicate reveals nothing that the caller could not read', async () => {
    const path = '/plugin/mirror/run?wait=true&dedupe_key=one';
    expect((await post(path, { payload: { password: SECRET } })).text).toContain(SECRET);
    const again = await post(path, { payload: {} }, CALLER);
    expect(again.body).toMatchObject({ duplicate: true });
    expect(again.text).not.toContain(SECRET);
  });

  test('signal data for administrators is in no job, step or result for others', async () => {
    const waiting = await post('/pipeline/waits', { payload: {} });
    const run = String(waiting.body['run_id']);
    await eventually('it waits', async () => {
      const shown = await api.ask(`/runs/${run}`);
      return (shown.body['waiting'] as unknown[]).length > 0 && shown.body['status'] === 'running';
    });
    for (const type of ['staff.job', 'staff.run', 'staff.news']) {
      const data = { word: CLASSIFIED, fails: false };
      const sent = { type, source: 'shop', data, visibility: 'admin_only' };
      expect((await post('/signals', sent)).status).toBe(201);
      const failing = { ...sent, data: { ...data, fails: true }, type: 'staff.job' };
      expect((await post('/signals', failing)).status).toBe(201);
    }
    await settled();
    const asOwner = await readAll(OWNER);
    expect(leaks(asOwner, CLASSIFIED)).toContain(`/runs/${run}`);
    const asReader = await readAll(READER);
    expect(leaks(asReader, CLASSIFIED)).toEqual([]);
  });
});
