/**
 * Requests of running jobs to the API, with a token that belongs to one attempt and expires with
 * it.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readBlueprint } from '../../src/app/blueprint.ts';
import type { JsonObject } from '../../src/base/json.ts';
import type { Job } from '../../src/job/job.ts';
import { startApi, type TestApi } from '../support/api-server.ts';
import { makeDirectory } from '../support/directory.ts';
import { eventually } from '../support/instance.ts';
import { connect } from '../support/mcp-client.ts';
import { alwaysFails, python } from '../support/plugin-program.ts';
import { writeConfig, writePlugin } from '../support/plugin-tree.ts';
import { makeTenant } from '../support/tenants.ts';

/** Sends the API requests of its payload, and records its own request and the responses. */
const caller = python(`
import urllib.error, urllib.request
api = request.get("api")
token = api["token"] if api else ""
def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(api["url"] + path, data, headers)) as got:
            return [got.status, json.loads(got.read())]
    except urllib.error.HTTPError as error:
        return [error.code, json.loads(error.read())]
note(json.dumps({"job": request["job_id"], "api": api, "env": dict(os.environ)}))
for call in payload.get("calls", []):
    note(json.dumps({"job": request["job_id"], "answer": ask(*call)}))
if "gate" in payload:
    wait_for(payload["gate"])
if payload.get("leak"):
    sys.stderr.write("here it is: " + token)
    ok("it is " + token, events=[{"type": "leak.told", "payload": {"note": "see " + token}}],
        logs=[{"level": "info", "message": token}], state_updates={"last": token})
ok()`);

/** Whenever the job that the test names was done again, it has it done again. */
const repeater = python(`
import urllib.request
file = "../../again"
job = open(file).read() if os.path.exists(file) else "nothing"
if "job:" + job in json.dumps(request):
    headers = {"Authorization": "Bearer " + request["api"]["token"], "Content-Type": "application/json"}
    address = request["api"]["url"] + "/job/" + job + "/retry"
    urllib.request.urlopen(urllib.request.Request(address, b"{}", headers)).read()
ok()`);

const commands = 'commands: {poll: {}, handle: {}}';
const scopes = ['plugin:rw', 'jobs:rw', 'events:rw'];

let api: TestApi;
let directory = '';

beforeAll(async () => {
  const access = { api_access: { scopes } };
  api = await startApi({
    service: { max_hops: 3 },
    tenants: { trust: 'shared' },
    plugins: {
      caller: { ...access, shared: true },
      warm: { ...access, uses: 'caller', prewarm: 1 },
      owner: { uses: 'caller', api_access: { scopes: ['*'] } },
      repeater: access,
      broken: { retry: { max_attempts: 1 } },
    },
    routes: [
      { event_type: 'agent.said', to: 'caller.handle' },
      { event_type: 'directive.completed', to: 'repeater.handle' },
    ],
    pipelines: [{ name: 'breaks', steps: [{ id: 'first', uses: 'broken.poll' }] }],
    async prepare(place) {
      directory = place;
      const files = { name: 'caller', entrypoint: 'run', program: caller, commands };
      await writePlugin(join(place, 'plugins', 'caller'), { ...files, extra: 'prewarm: true' });
      await writePlugin(join(place, 'plugins', 'outsider'), { ...files, name: 'outsider' });
      const again = { ...files, name: 'repeater', program: repeater };
      await writePlugin(join(place, 'plugins', 'repeater'), again);
      const broken = { ...files, name: 'broken', program: alwaysFails };
      await writePlugin(join(place, 'plugins', 'broken'), broken);
    },
  });
});
afterAll(() => api.close());

interface AttemptNote {
  readonly api: { url: string; mcp_url: string; token: string; expires_at: string } | null;
  readonly env: Record<string, string>;
  readonly answers: readonly (readonly [number, Record<string, unknown>])[];
}

async function noted(jobId: string): Promise<AttemptNote | undefined> {
  const text = await readFile(join(directory, 'notes'), 'utf8').catch(() => '');
  const lines = text.split('\n').slice(0, -1);
  const own = lines.map((line) => JSON.parse(line) as JsonObject).filter((n) => n['job'] === jobId);
  const [first, ...rest] = own;
  if (first === undefined) return undefined;
  return { ...first, answers: rest.map((note) => note['answer']) } as unknown as AttemptNote;
}

async function start(payload: JsonObject, plugin = 'caller'): Promise<string> {
  const { body } = await api.ask(`/plugin/${plugin}/poll`, { body: JSON.stringify({ payload }) });
  return String(body['job_id']);
}

function ended(jobId: string): Promise<Job> {
  return api.server.instance.engine.waitFor(jobId, 15_000);
}

async function run(payload: JsonObject, plugin?: string): Promise<AttemptNote> {
  const jobId = await start(payload, plugin);
  expect(await ended(jobId)).toMatchObject({ status: 'succeeded' });
  const found = await noted(jobId);
  if (found === undefined) throw new Error('the plugin noted nothing');
  return found;
}

test('a running job is let in at /mcp with its scopes, and not when its attempt is over', async () => {
  const jobId = await start({ gate: 'mcp' });
  const { api: given } = await eventually('the plugin began', () => noted(jobId));
  const { call, names } = await connect(given?.mcp_url ?? '', given?.token ?? '');
  const offered = await names();
  expect(offered).toContain('job_list');
  expect(offered).not.toContain('webhook_list');
  const { data } = await call('job_inspect', { id: jobId });
  expect(data['answer']).toMatchObject({ job_id: jobId, status: 'running' });
  expect(await call('webhook_list')).toMatchObject({
    isError: true,
    data: { error: { code: 'FORBIDDEN' } },
  });
  await writeFile(join(directory, 'gate-mcp'), '');
  await ended(jobId);
  await expect(call('job_list')).rejects.toThrow(/401|unauthorized/i);
});

test('a token works while its attempt runs, as its job, and not a moment longer', async () => {
  const jobId = await start({ gate: 'end', leak: true });
  const { api: given, env } = await eventually('the plugin began', () => noted(jobId));
  const token = given?.token ?? '';
  expect(given).toMatchObject({
    url: `http://127.0.0.1:${api.port}`,
    mcp_url: `http://127.0.0.1:${api.port}/mcp`,
    token: expect.stringMatching(/^dtr_[\w-]{43}$/),
    expires_at: expect.stringMatching(/Z$/),
  });
  expect(JSON.stringify(env)).not.toContain(token);
  expect(await api.ask('/jobs', { token })).toMatchObject({ status: 200 });
  expect(await api.ask('/webhooks', { token })).toMatchObject({ status: 403 });
  expect(await api.ask('/jobs', { token: `${token}x` })).toMatchObject({ status: 401 });

  const child = await api.ask('/plugin/echo/poll', { token, body: '{}' });
  expect(child.status).toBe(202);
  expect(await ended(String(child.body['job_id']))).toMatchObject({
    actor: `job:${jobId}`,
    parentJobId: jobId,
    rootJobId: jobId,
    hops: 1,
  });
  const later = await api.ask('/plugin/echo/poll?delay=1h', { body: '{}' });
  const cancel = `/job/${String(later.body['job_id'])}/cancel`;
  expect(await api.ask(cancel, { token, body: '{}' })).toMatchObject({ status: 200 });
  const { directives } = (await api.ask('/directives?type=job.cancel')).body;
  expect(directives).toMatchObject([
    { actor: `job:${jobId}`, correlation_id: jobId, causation_id: jobId },
  ]);

  await writeFile(join(directory, 'gate-end'), '');
  expect(await ended(jobId)).toMatchObject({ status: 'succeeded' });
  expect(await api.ask('/jobs', { token })).toMatchObject({ status: 401 });
  const { engine } = api.server.instance;
  const stored = [
    await engine.ledger.attempts.listByJob([jobId]),
    await engine.ledger.signals.list({ limit: 100 }),
    await engine.ledger.jobs.find(jobId),
    api.records,
    (await api.ask('/plugin/caller')).text,
  ].map((one) => JSON.stringify(one));
  for (const text of stored) expect(text).not.toContain(token);
  expect(stored[0]).toContain('[run token]');
  expect(stored[1]).toContain('[run token]');
});

test('a stream that it opened ends with its attempt', async () => {
  const jobId = await start({ gate: 'stream' });
  const { api: given } = await eventually('the plugin began', () => noted(jobId));
  const stream = await fetch(`${given?.url}/events`, {
    headers: { authorization: `Bearer ${given?.token}` },
  });
  expect(stream.status).toBe(200);
  await writeFile(join(directory, 'gate-stream'), '');
  await ended(jobId);
  const after = await api.ask('/plugin/echo/poll?wait=20s', { body: '{}' });
  const responseText = await stream.text();
  expect(responseText).toContain('retry: 2000');
  expect(responseText).not.toContain(jobId);
  expect(responseText).not.toContain(String(after.body['job_id']));
});

test("a plugin without access gets no token, and expired tokens don't block others", async () => {
  expect(await run({}, 'outsider')).toMatchObject({ api: null });
  const dead = Array.from({ length: 120 }, () =>
    api.ask('/jobs', { token: `dtr_${'x'.repeat(43)}` }),
  );
  const statuses = (await Promise.all(dead)).map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([401]));
  expect((await api.ask('/jobs')).status).toBe(200);
});

test('a process that waited for its request finds it there', async () => {
  const { api: given } = await run({}, 'warm');
  expect(given?.token).toMatch(/^dtr_/);
});

describe('the jobs that a job starts are its descendants', () => {
  test('so jobs that start each other come to an end', async () => {
    const deepest = { calls: [['/plugin/echo/poll', {}]] };
    const third = { calls: [['/plugin/caller/poll', { payload: deepest }]] };
    const second = { calls: [['/plugin/caller/poll', { payload: third }]] };
    const first = { calls: [['/plugin/caller/poll', { payload: second }]] };
    let jobId = await start(first);
    for (const hops of [0, 1, 2]) {
      expect(await ended(jobId)).toMatchObject({ status: 'succeeded', hops });
      const [status, body] = (await noted(jobId))?.answers[0] ?? [];
      expect(status).toBe(202);
      jobId = String(body?.['job_id']);
    }
    expect(await ended(jobId)).toMatchObject({ status: 'succeeded', hops: 3 });
    const [refused] = (await noted(jobId))?.answers ?? [];
    expect(refused).toMatchObject([409, { code: 'HOPS_EXCEEDED' }]);
  });

  test('a repeated job is one, too', async () => {
    const echo = await api.ask('/plugin/echo/poll', { body: '{}' });
    const echoId = String(echo.body['job_id']);
    await ended(echoId);
    const jobId = await start({ calls: [[`/job/${echoId}/retry`, {}]] });
    await ended(jobId);
    const [answer] = (await noted(jobId))?.answers ?? [];
    const again = await ended(String(answer?.[1]['job_id']));
    expect(again).toMatchObject({ retryOf: echoId, actor: `job:${jobId}`, hops: 1 });
  });

  test('by whatever directive it asks for it', async () => {
    const entry = { type: 'agent.said', source: 'a-person', data: { calls: [] } };
    const signalId = String(
      (await api.ask('/signals', { body: JSON.stringify(entry) })).body['signal_id'],
    );
    const hook = { id: 'bell', title: 'Bell', plugin: 'caller', command: 'poll' };
    expect(await api.ask('/webhooks', { body: JSON.stringify(hook) })).toMatchObject({
      status: 201,
    });
    await api.ask('/webhooks/bell/test', { body: '{"payload": {"n": 1}}' });
    const { body: listed } = await api.ask('/webhooks/deliveries?id=bell');
    const [delivery] = listed['deliveries'] as { delivery_id: string }[];
    const { body: halted } = await api.ask('/pipeline/breaks?wait=20s', { body: '{}' });
    const calls = [
      ['/signals/replay', { id: signalId, force: true }],
      [`/webhooks/deliveries/${delivery?.delivery_id}/replay`, {}],
      ['/webhooks/bell/test', { payload: { n: 2 } }],
      [`/runs/${String(halted['run_id'])}/revive`, {}],
      [`/runs/${String(halted['run_id'])}/retry-from`, { step: 'first' }],
    ];
    const { ledger } = api.server.instance.engine;
    const before = (await ledger.jobs.list({ limit: 1 }))[0]?.seq ?? 0;
    // The second one asks for all of it, one hop from the first.
    const second = await start({ calls: [['/plugin/owner/poll', { payload: { calls } }]] });
    await ended(second);
    const [[, asked] = [0, {}]] = (await noted(second))?.answers ?? [];
    await ended(String(asked['job_id']));
    const answers = (await noted(String(asked['job_id'])))?.answers ?? [];
    expect(answers.map(([status]) => status)).toEqual([200, 200, 200, 202, 409]);
    const isNew = async () => {
      const all = await ledger.jobs.list({ limit: 50, order: 'oldest', beforeSeq: before });
      const asks = [second, asked['job_id']];
      const started = all.filter(({ id, plugin }) => plugin !== 'repeater' && !asks.includes(id));
      return started.length === 4 && started;
    };
    const started = await eventually('all of it was started', isNew);
    expect(started.map(({ hops }) => hops)).toEqual([2, 2, 2, 2]);
    for (const { id } of started) await ended(id);

    // And the last one of a chain asks for nothing of it.
    const last = { calls: [['/plugin/owner/poll', { payload: { calls } }]] };
    const first = { calls: [['/plugin/caller/poll', { payload: last }]] };
    const begun = await start({ calls: [['/plugin/caller/poll', { payload: first }]] });
    let jobId = begun;
    for (let hop = 0; hop < 3; hop += 1) {
      await ended(jobId);
      const [[, body] = [0, {}]] = (await noted(jobId))?.answers ?? [];
      jobId = String(body['job_id']);
    }
    expect(await ended(jobId)).toMatchObject({ hops: 3 });
    const refused = (await noted(jobId))?.answers ?? [];
    expect(refused.map(([, body]) => body['code'])).toEqual(calls.map(() => 'HOPS_EXCEEDED'));
  });

  test('a directive of the job itself is not reported to it', async () => {
    const { body } = await api.ask('/plugin/echo/poll', { body: '{}' });
    const echoId = String(body['job_id']);
    await ended(echoId);
    await writeFile(join(directory, 'again'), echoId);
    expect((await api.ask(`/job/${echoId}/retry`, { body: '{}' })).status).toBe(202);
    const retries = async () => {
      const all = await api.server.instance.engine.ledger.directives.list({
        target: `job:${echoId}`,
        limit: 50,
      });
      return all.length === 2 && all.every(({ status }) => status === 'completed') && all;
    };
    const [second] = await eventually('it was done once more', retries);
    expect(second?.actor).toMatch(/^job:/);
    const response = await api.ask(`/signals/${second?.signalId}`);
    expect(response.body).toMatchObject({ type: 'directive.completed', jobs: [] });
  });

  test('signals of the job are, too', async () => {
    const entry = { type: 'agent.said', source: 'an-agent', data: { calls: [] } };
    const jobId = await start({ calls: [['/signals', entry]] });
    await ended(jobId);
    const [answer] = (await noted(jobId))?.answers ?? [];
    const signal = await api.ask(`/signals/${String(answer?.[1]['signal_id'])}`);
    expect(signal.body).toMatchObject({ correlation_id: jobId, hops: 1 });
    const [handler] = signal.body['jobs'] as { job_id: string }[];
    expect(await ended(handler?.job_id ?? '')).toMatchObject({
      parentJobId: jobId,
      rootJobId: jobId,
      hops: 1,
    });
  });
});

test('a job does not wait for another one when its own slot is the last', async () => {
  const holders = await Promise.all([1, 2, 3].map(() => start({ gate: 'hold' })));
  for (const id of holders) await eventually('it holds a slot', () => noted(id));
  const { answers } = await run({ calls: [['/plugin/echo/poll?wait=30s', {}]] });
  expect(answers).toMatchObject([[202, { status: 'queued' }]]);
  expect(answers[0]?.[1]).not.toHaveProperty('timeout_exceeded');
  await writeFile(join(directory, 'gate-hold'), '');
  await Promise.all(holders.map(ended));
  const [waited] = (await run({ calls: [['/plugin/echo/poll?wait=30s', {}]] })).answers;
  expect(waited).toMatchObject([200, { status: 'succeeded' }]);
});

test('a token of a tenant is about the ledger of that tenant', async () => {
  const tenant = await makeTenant(api);
  await api.ask('/plugin/echo/poll', { body: '{}' });
  const calls = [['/jobs'], ['/system/doctor']];
  const { body } = await tenant.post('/plugin/caller/poll', { payload: { calls } });
  const jobId = String(body['job_id']);
  const done = await eventually('the job of the tenant has ended', async () => {
    const found = await noted(jobId);
    return found?.answers.length === 2 && found;
  });
  const [jobs, doctor] = done.answers;
  const seen = (jobs?.[1]['jobs'] ?? []) as { job_id: string }[];
  expect(seen.map((job) => job.job_id)).toEqual([jobId]);
  expect(doctor?.[0]).toBe(403);
});

describe('the configuration', () => {
  async function read(text: string) {
    const place = await makeDirectory();
    await writePlugin(join(place, 'plugins', 'echo'), {});
    return readBlueprint(await writeConfig(place, text));
  }
  const lines = (scope: string, enabled: boolean): string => `
plugin_roots: [./plugins]
state: { path: ./state/ledger.db }
api: { enabled: ${enabled}, auth: { api_key: 0123456789abcdef0123 } }
plugins:
  echo:
    api_access:
      scopes:
        - jobs:ro
        - ${scope}
`;

  test('names the line of a scope that is none', async () => {
    await expect(read(lines('jobs:everything', true))).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      place: expect.stringMatching(/:10:\d+$/),
      message: expect.stringContaining('plugins.echo.api_access.scopes[1]'),
    });
    expect((await read(lines('echo:rw', true))).warnings).toEqual([]);
  });

  test('warns where there is no API to be asked', async () => {
    const { warnings } = await read(lines('"*"', false));
    expect(warnings).toMatchObject([{ key: 'plugins.echo.api_access' }]);
  });
});
