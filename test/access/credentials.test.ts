/** Credentials from the ledger to the plugin, and nowhere else; signals that may not show all. */
import { chmod, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { DirectiveResult } from '../../src/directive/result.service.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { ownerOf } from '../../src/operation/context.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { systemSelfcheck } from '../../src/insight/selfcheck.operations.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { startRun } from '../support/runs.ts';
import { dumpLedger, findLeaks } from '../support/leak-search.ts';

const actor = 'cli:test';
const secret = 'Tr0ub4dor&3/"quoted"\\ünd+more';

function set(engine: Engine, name: string, value: string): Promise<DirectiveResult> {
  return engine.direct({ type: 'credential.set', params: { name }, actor, secret: value });
}

/** Credentials in the self-check. */
async function check(engine: Engine): Promise<unknown> {
  const context = { engine, principal: ownerOf(actor), submittedBy: 'cli' as const };
  const { checks } = await invoke(systemSelfcheck, context);
  return (checks as { name: string }[]).find(({ name }) => name === 'credentials');
}

const referring = { config: { auth: { token: 'credential:api' }, url: 'https://x.test' } };

/** Prints what it was given in as many ways as it can think of. */
const leaky = python(`
import base64, urllib.parse
token = request["config"]["auth"]["token"]
note(token)
basic = base64.b64encode(("ann:" + token).encode()).decode()
sys.stderr.write("using " + token + " and Basic " + basic + "\\n")
ok("got " + token, logs=[{"level": "info", "message": "sent " + token}],
  events=[{"type": "thing.told", "payload": {"deep": [{"as": token}], token: 1,
    "url": "https://x.test/?q=" + urllib.parse.quote(token, safe="")}}],
  state_updates={"last": token})`);

const fails = python(`
token = request["config"]["auth"]["token"]
fail("refused " + token) if payload.get("how") == "error" else None
print("no json: " + token + " " + json.dumps(token))
sys.stderr.write(token)
sys.exit(3)`);

describe.each(databases)('a credential on %s', (database) => {
  test('X-01 reaches the plugin in its request, and is found in no sink', async () => {
    const place = await makePlace({
      database,
      plugins: {
        leaky: { program: leaky, settings: referring },
        fails: { program: fails, settings: { ...referring, retry: { max_attempts: 1 } } },
        hears: { program: python('note(json.dumps(request.get("event", payload))); ok()') },
      },
      routes: [{ event_type: 'thing.told', to: 'hears' }],
      pipelines: [{ name: 'flow', steps: [{ uses: 'leaky.poll' }, { uses: 'hears.poll' }] }],
    });
    const instance = await place.start();
    const { engine, ledger, run } = instance;
    expect(await set(engine, 'api', secret)).toMatchObject({ status: 'completed' });
    expect(await run('leaky')).toMatchObject({ status: 'succeeded' });
    expect(await run('fails', { how: 'error' })).toMatchObject({
      status: 'dead',
      lastError: 'refused [credential:api]',
    });
    expect(await run('fails')).toMatchObject({ status: 'dead' });
    const [signal] = await ledger.signals.list({ type: 'thing.told', limit: 1 });
    expect(JSON.parse(signal?.data ?? '')).toEqual({
      deep: [{ as: '[credential:api]' }],
      '[credential:api]': 1,
      url: 'https://x.test/?q=[credential:api]',
      result: 'got [credential:api]',
    });
    const [first, heard] = await eventually('it is heard', async () => {
      const notes = await place.notes();
      return notes.length >= 2 ? notes : undefined;
    });
    expect(first).toBe(secret);
    expect(heard).toContain('[credential:api]');
    expect(JSON.parse(await ledger.plugins.readState('leaky'))).toEqual({
      last: '[credential:api]',
    });
    const runId = await startRun(instance, 'flow');
    expect((await engine.waitForRun(runId, 20_000)).status).toBe('succeeded');
    const spelled = [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)];
    const base64 = Buffer.from(`ann:${secret}`).toString('base64').slice(8, 30);
    const sinks: Record<string, string> = {
      ...(await dumpLedger(ledger)),
      log: JSON.stringify(instance.records),
      ring: JSON.stringify(engine.ring.read({ limit: 10_000 })),
    };
    expect(findLeaks(sinks, [...spelled, base64, 'Tr0ub4dor'])).toEqual([]);
    expect(sinks['directives']).toContain('credential.set');
  });

  test('that is missing or past its time fails the attempt for good, by its name', async () => {
    const place = await makePlace({
      database,
      plugins: { worker: { program: python('note("ran"); ok()'), settings: referring } },
    });
    const { engine, run, attempts } = await place.start();
    expect(await check(engine)).toEqual({
      name: 'credentials',
      status: 'warn',
      detail: "The credential api is missing: plugin worker can't work without it.",
    });
    const job = await run('worker');
    expect(job).toMatchObject({ status: 'failed', reason: 'credential', attempt: 1 });
    expect(job.lastError).toMatch(/^there is no credential api\. Set it with .*credential set api/);
    expect(await attempts(job.id)).toMatchObject([{ cause: 'credential', pid: null }]);
    await expect(set(engine, 'api', '${MY-TOKEN}')).rejects.toThrow(
      'the value is a placeholder that was not replaced',
    );
    await set(engine, 'api', 'value-one');
    expect(await run('worker')).toMatchObject({ status: 'succeeded' });
    await place.sql("update credentials set expires_at = '2020-01-01T00:00:00.000Z'");
    expect((await run('worker')).lastError).toMatch(/^the credential api has expired\. /);
    await engine.direct({ type: 'credential.delete', params: { name: 'api' }, actor });
    expect(await run('worker')).toMatchObject({ status: 'failed', reason: 'credential' });
    expect(await place.notes()).toEqual(['ran']);
  });

  test('goes to a process that was started ahead with its request alone', async () => {
    const program = python(
      'note(request["config"]["auth"]["token"]); ok()',
      'note("env", "value-one" in str(os.environ), sys.argv)',
    );
    const settings = { ...referring, prewarm: 1 };
    const place = await makePlace({
      database,
      plugins: { worker: { program, settings, manifest: 'prewarm: true' } },
    });
    const { engine, run } = await place.start();
    await set(engine, 'api', 'value-one');
    expect(await run('worker')).toMatchObject({ status: 'succeeded' });
    await set(engine, 'api', 'value-two');
    expect(await run('worker')).toMatchObject({ status: 'succeeded' });
    const notes = await place.notes();
    expect(notes.filter((note) => note.startsWith('value'))).toEqual(['value-one', 'value-two']);
    expect(notes.filter((note) => note.startsWith('env')).join()).not.toContain('True');
  });

  test('whose key is lost does not open, and no new key hides that', async () => {
    const place = await makePlace({
      database,
      plugins: {
        worker: {
          program: python('ok()'),
          settings: { ...referring, retry: { max_attempts: 2 } },
        },
      },
    });
    const first = await place.start();
    await set(first.engine, 'api', 'value-one');
    const key = join(place.config.state.dir, 'credential.key');
    expect((await stat(key)).mode & 0o777).toBe(0o600);
    const keyText = await readFile(key, 'utf8');
    expect(await first.run('worker')).toMatchObject({ status: 'succeeded' });
    await chmod(key, 0o640);
    const job = await first.run('worker');
    expect(job).toMatchObject({ status: 'dead', retryCount: 2 });
    expect(job.lastError).toContain('is readable by other users');
    await first.close();
    await rm(key);
    const second = await place.start();
    await expect(set(second.engine, 'other', 'value-two')).rejects.toMatchObject({
      code: 'CREDENTIAL_KEY_MISSING',
    });
    expect((await second.run('worker')).lastError).toContain('is missing here');
    expect(await check(second.engine)).toMatchObject({ status: 'fail' });
    await expect(stat(key)).rejects.toThrow('ENOENT');
    expect(keyText).not.toContain('value');
  });
});

describe.each(databases)('a signal that may not show all on %s', (database) => {
  const tells = python(`ok(events=[{"type": "user.made",
    "payload": {"user": {"name": "ann", "password": "s3cr3t-of-ann"}}}])`);

  test('is masked; its job gets the whole, and so does its replay, while it can be opened', async () => {
    const place = await makePlace({
      database,
      plugins: {
        tells: { program: tells },
        hears: { program: python('note(payload["user"]["password"]); ok()') },
      },
      routes: [{ event_type: 'user.made', to: 'hears' }],
    });
    const { engine, ledger, run } = await place.start();
    expect(await run('tells')).toMatchObject({ status: 'succeeded' });
    const [signal] = await ledger.signals.list({ type: 'user.made', limit: 1 });
    expect(JSON.parse(signal?.data ?? '')).toEqual({
      user: { name: 'ann', password: '[redacted]' },
      result: 'done',
    });
    expect(JSON.parse(signal?.metadata ?? '')).toEqual({
      schema_version: 1,
      redacted: ['data.user.password'],
    });
    const { signals, sealed_payloads: sealed } = await dumpLedger(ledger);
    expect(findLeaks({ signals: signals ?? '', sealed: sealed ?? '' }, ['s3cr3t-of-ann'])).toEqual(
      [],
    );
    const noted = (count: number) =>
      eventually(`${count} were noted`, async () => (await place.notes()).length >= count);
    await noted(1);
    const replay = (params: object): Promise<DirectiveResult> =>
      engine.direct({ type: 'signal.replay', params, actor });
    const again = await replay({ signal_id: signal?.id, force: true });
    expect(again).toMatchObject({ status: 'completed', result: { jobs: 1, unopened: 0 } });
    await noted(2);
    expect(await place.notes()).toEqual(['s3cr3t-of-ann', 's3cr3t-of-ann']);

    await place.sql('delete from sealed_payloads');
    expect(await replay({ signal_id: signal?.id, force: true })).toMatchObject({
      status: 'failed',
      errorCode: 'SIGNAL_MASKED',
    });
    expect(await replay({ type: 'user.made', force: true })).toMatchObject({
      result: { signals: 1, jobs: 0, unopened: 1 },
    });
  });
});

describe.each(databases)('rotating the key on %s', (database) => {
  test('X-03 seals all with a new one; the old still opens what is left, and once is enough', async () => {
    const place = await makePlace({
      database,
      plugins: {
        worker: {
          program: python('note(request["config"]["auth"]["token"]); ok()'),
          settings: referring,
        },
      },
    });
    const { engine, ledger, run } = await place.start();
    await set(engine, 'api', 'value-one');
    const [before] = await ledger.seals.count();
    const rotate = (): Promise<DirectiveResult> =>
      engine.direct({ type: 'credential.rotate', params: {}, actor });
    const { result, status } = await rotate();
    expect(status).toBe('completed');
    expect(result).toMatchObject({ resealed: 1, left: 0 });
    const [after, ...more] = await ledger.seals.count();
    expect(more).toEqual([]);
    expect(after).toMatchObject({ keyId: result?.['key_id'], credentials: 1 });
    expect(after?.keyId).not.toBe(before?.keyId);
    expect(await run('worker')).toMatchObject({ status: 'succeeded' });

    // A row that was not reached yet, as after a crash between two steps.
    await place.sql('update credentials set key_id = ?, sealed = ?', 'f00f00f00f00', 'v1.x.y');
    expect((await rotate()).result).toMatchObject({ resealed: 0, left: 1 });
    expect(await place.notes()).toEqual(['value-one']);
    const file = await readFile(join(place.config.state.dir, 'credential.key'), 'utf8');
    expect(file.trim().split('\n')).toHaveLength(3);
  });
});
