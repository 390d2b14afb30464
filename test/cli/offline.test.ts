/**
 * Commands without a server: reads disturb no other process, writes have exclusive access, and an
 * old ledger stays unchanged.
 */
import { noRules } from '../../src/ledger/rules.ts';
import { closeSync, existsSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import { openFastRead } from '../../src/app/fast-read.ts';
import { openServer } from '../../src/app/server.ts';
import { DuctileError } from '../../src/base/errors.ts';
import { loadConfig } from '../../src/config/load.ts';
import { claimInstanceLock } from '../../src/ledger/sqlite/instance-lock.ts';
import { schemaVersion } from '../../src/ledger/migrate.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { operations } from '../../src/operation/all.ts';
import { makeDirectory } from '../support/directory.ts';
import { collectLog } from '../support/instance.ts';
import { run } from '../support/fake-cli.ts';
import { writePlugin } from '../support/plugin-tree.ts';
import { makeSchemaUrl } from '../support/postgres.ts';

const shipped = resolve(import.meta.dirname, '../../plugins');
let directory: string;
let state: string;

beforeEach(async () => {
  directory = await makeDirectory();
  state = join(directory, 'data', 'state.db');
  mkdirSync(join(directory, 'plugins'));
  const config = 'plugin_roots: [./plugins]\nstate:\n  path: ./data/state.db\n';
  writeFileSync(join(directory, 'config.yaml'), config);
});

const ductile = (...argv: string[]) =>
  run([...argv, '--config', directory], { host: { ...cliHost } });

async function makeLedger(): Promise<void> {
  await (await openLedger({ kind: 'sqlite', path: state }, noRules)).close();
}

/** An index that nothing asks for while it is empty. */
function damageIndex(): void {
  const db = new DatabaseSync(state);
  const [{ page } = { page: 0 }] = db
    .prepare(`select rootpage as page from sqlite_schema where name = 'webhooks_key'`)
    .all() as { page: number }[];
  db.close();
  const file = openSync(state, 'r+');
  writeSync(file, Buffer.alloc(4096, 0xff), 0, 4096, (page - 1) * 4096);
  closeSync(file);
}

describe('looking', () => {
  test('at a place where nothing is yet finds nothing and leaves nothing', async () => {
    const { code, out } = await ductile('job', 'list');
    expect([code, out]).toEqual([0, 'There are no such jobs.\n']);
    expect((await ductile('status', '--json')).code).toBe(0);
    expect(existsSync(join(directory, 'data'))).toBe(false);
  });

  test.each(['job list', 'queue', 'logs', 'plugins', 'status', 'system check'])(
    '`%s` works while another process holds the lock',
    async (line) => {
      await makeLedger();
      const lock = claimInstanceLock(join(directory, 'data'));
      const { code, err } = await ductile(...line.split(' '));
      lock.release();
      expect([code, err]).toEqual([0, '']);
    },
  );

  test('finds damage of the file, even if no row has to be read for it', async () => {
    await makeLedger();
    expect((await ductile('system', 'check')).out).toContain('no problems');
    expect((await ductile('doctor')).out).not.toContain('damaged');
    damageIndex();
    const check = await ductile('system', 'check', '--json');
    expect(check.code).toBe(1);
    expect(JSON.parse(check.out)).toMatchObject({ ok: false });
    const doctor = await ductile('doctor');
    expect(doctor.code).toBe(1);
    expect(doctor.out).toMatch(/error {2}state names a damaged database: integrity/);
  });

  test('says to the doctor that the ledger cannot be had, or is not there yet', async () => {
    const at = async (url: string) => {
      const config = `plugin_roots: [./plugins]\nstate: { url: "${url}" }\n`;
      writeFileSync(join(directory, 'config.yaml'), config);
      return ductile('doctor', '-v');
    };
    const away = await at('postgres://nobody@127.0.0.1:1/none');
    expect([away.code, away.out]).toEqual([1, expect.stringMatching(/state .*ECONNREFUSED/)]);
    const url = new URL(await makeSchemaUrl());
    url.searchParams.set('schema', 'not_yet');
    const empty = await at(url.href);
    expect([empty.code, empty.out]).toEqual([0, expect.stringContaining('no ledger yet')]);
  });

  test('reports a plugin that does not load in the result, and nowhere else', async () => {
    const broken = join(directory, 'plugins', 'broken');
    mkdirSync(broken);
    writeFileSync(join(broken, 'manifest.yaml'), 'name: broken\n');
    const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    const { out } = await ductile('plugin', 'list');
    const lines = written.mock.calls.map(([line]) => String(line));
    written.mockRestore();
    expect(out).toContain('broken: manifest_spec');
    expect(lines).toEqual([]);
  });

  test('works although another part of the configuration is broken', async () => {
    writeFileSync(join(directory, 'config.yaml'), 'state: { path: ./data/state.db }\nplugns: {}\n');
    expect((await ductile('job', 'list')).code).toBe(0);
    expect((await ductile('plugin', 'list')).code).toBe(78);
  });
});

describe('a plugin that is not there', () => {
  test.each(['logs nonesuch', 'breaker show nonesuch', 'plugin facts nonesuch'])(
    '`%s` fails and names the plugin',
    async (line) => {
      const { code, err } = await ductile(...line.split(' '));
      expect([code, err]).toEqual([1, expect.stringContaining('there is no plugin nonesuch')]);
    },
  );

  test('is distinguished from one that is there and has nothing to show', async () => {
    const config = { plugin_roots: [shipped], state: { path: state } };
    writeFileSync(join(directory, 'config.yaml'), JSON.stringify(config));
    for (const line of ['logs echo', 'breaker show echo', 'plugin facts echo']) {
      expect((await ductile(...line.split(' '))).code).toBe(0);
    }
  });
});

test('logs shows the log entries of a response', async () => {
  const program = `#!/bin/sh
cat >/dev/null
echo '{"status":"ok","result":"x","logs":[{"level":"warn","message":"the list was empty"}]}'
`;
  await writePlugin(join(directory, 'plugins', 'teller'), { name: 'teller', program });
  expect((await ductile('plugin', 'run', 'teller')).code).toBe(0);
  expect((await ductile('logs', 'teller')).out).toContain('warn the list was empty');
});

describe('writing', () => {
  test('is refused while another process holds the lock; its dry run is not', async () => {
    await makeLedger();
    const lock = claimInstanceLock(join(directory, 'data'));
    const held = await ductile('system', 'pause');
    const plan = await ductile('system', 'pause', '--dry-run');
    lock.release();
    expect([held.code, held.err]).toEqual([1, expect.stringContaining('INSTANCE_LOCKED')]);
    expect([plan.code, plan.out]).toEqual([0, expect.stringContaining('Nothing was done.')]);
    expect((await ductile('system', 'pause')).code).toBe(0);
    expect((await ductile('directive', 'list')).out).toMatch(/system\.pause .*completed/);
  });

  test('the consequences of a job are done before the command ends, including runs of pipelines', async () => {
    const config = {
      plugin_roots: [shipped],
      state: { path: './data/state.db' },
      pipelines: [
        {
          name: 'follows',
          on: 'echo.echoed',
          concurrency: 1,
          steps: ['a', 'b', 'c'].map((id) => ({ id, uses: 'echo.health' })),
        },
        { name: 'asks', on: 'echo.echoed', steps: [{ id: 'ok', approve: 'Go on?' }] },
      ],
    };
    writeFileSync(join(directory, 'config.yaml'), JSON.stringify(config));
    expect((await ductile('plugin', 'run', 'echo')).code).toBe(0);
    const { out } = await ductile('run', 'list', '--json');
    const { runs } = JSON.parse(out) as { runs: { pipeline: string; status: string }[] };
    expect(runs.map(({ pipeline, status }) => `${pipeline} ${status}`).toSorted()).toEqual([
      'asks running',
      'follows succeeded',
    ]);
  });

  test('a job that is to be tried again later is left for the next time', async () => {
    const plugins = { echo: { retry: { max_attempts: 3, backoff_base: '1h' } } };
    const config = { plugin_roots: [shipped], state: { path: state }, plugins };
    writeFileSync(join(directory, 'config.yaml'), JSON.stringify(config));
    const { code, out } = await ductile('plugin', 'run', 'echo', '--payload', '{"fail":"no luck"}');
    expect([code, out]).toEqual([1, expect.stringMatching(/status +queued/)]);
    expect(out).toMatch(/echo poll will be retried: no luck +2\d{3}-/);
    expect(out).toMatch(/with the next `ductile system start --config \S+` or run/);
  });

  test('a run that waits for a person is left alone, even behind a job that ran', async () => {
    const asks = { name: 'asks', on: 'echo.echoed', steps: [{ id: 'ok', approve: 'Go on?' }] };
    const config = { plugin_roots: [shipped], state: { path: state }, pipelines: [asks] };
    writeFileSync(join(directory, 'config.yaml'), JSON.stringify(config));
    const started = await ductile('pipeline', 'run', 'asks');
    expect([started.code, started.out]).toEqual([1, expect.stringContaining('Go on?')]);
    expect(started.out).toMatch(/`ductile run approve \S+ ok --config \S+` continues it/);
    const { code, out } = await ductile('plugin', 'run', 'echo', '--json');
    expect([code, JSON.parse(out)]).toEqual([
      0,
      expect.objectContaining({
        status: 'succeeded',
        message: expect.stringContaining('system start') as string,
        waiting: [expect.objectContaining({ name: 'asks', step: 'ok' })],
      }),
    ]);
  });

  test('a job that is due in a moment is waited for', async () => {
    const brief = { name: 'brief', steps: [{ id: 'rest', wait: '100ms' }, { uses: 'echo' }] };
    const config = { plugin_roots: [shipped], state: { path: state }, pipelines: [brief] };
    writeFileSync(join(directory, 'config.yaml'), JSON.stringify(config));
    const { code, out } = await ductile('pipeline', 'run', 'brief');
    expect([code, out]).toEqual([0, expect.stringMatching(/status +succeeded/)]);
  });

  test('a plugin is run, and no schedule fires for it', async () => {
    const plugins = { echo: { schedules: [{ every: '5m' }] } };
    const config = { plugin_roots: [shipped], state: { path: state }, plugins };
    writeFileSync(join(directory, 'config.yaml'), JSON.stringify(config));
    expect((await ductile('plugin', 'run', 'echo')).code).toBe(0);
    const { jobs } = JSON.parse((await ductile('job', 'list', '--json')).out) as { jobs: object[] };
    expect(jobs).toEqual([expect.objectContaining({ submitted_by: 'cli' })]);
  });

  test('a schedule that no service has begun with is distinguished from a missing one', async () => {
    const plugins = { echo: { schedules: [{ id: 'often', every: '5m' }] } };
    const config = { plugin_roots: [shipped], state: { path: state }, plugins };
    writeFileSync(join(directory, 'config.yaml'), JSON.stringify(config));
    for (const line of ['why echo/often', 'schedule pause echo often']) {
      const { code, err } = await ductile(...line.split(' '));
      expect([line, code, err]).toEqual([line, 1, expect.stringContaining('SCHEDULE_NOT_FOUND')]);
      expect(err).toContain('is added when the service starts');
    }
    const other = await ductile('why', 'echo/oftener');
    expect(other.err).toContain('SUBJECT_NOT_FOUND');
  });

  test('a command about a running service says so', async () => {
    for (const line of ['system logs', 'system reload']) {
      const { code, err } = await ductile(...line.split(' '));
      expect([code, err]).toEqual([
        1,
        expect.stringContaining('needs a service, and none runs here'),
      ]);
    }
  });
});

test('an older ledger is left alone until it is migrated', async () => {
  await makeLedger();
  const db = new DatabaseSync(state);
  db.exec(`pragma user_version = ${schemaVersion - 1}`);
  db.close();
  for (const line of ['job list', 'plugin list', 'system pause']) {
    const { code, err } = await ductile(...line.split(' '));
    expect([line, code, err]).toEqual([line, 78, expect.stringContaining('system migrate')]);
  }
  const plan = async () => (await ductile('system', 'migrate', '--dry-run')).out;
  expect(await plan()).toContain(`from schema version ${schemaVersion - 1} to ${schemaVersion}.`);
  const { code, out } = await ductile('system', 'migrate', '--json');
  expect([code, JSON.parse(out)]).toEqual([
    0,
    { schema_before: schemaVersion - 1, schema: schemaVersion },
  ]);
  expect(await plan()).toContain('will not change');
  expect((await ductile('job', 'list')).code).toBe(0);
});

const places = {
  SQLite: () => Promise.resolve({ kind: 'sqlite', path: state, dir: directory } as const),
  PostgreSQL: async () => {
    const url = new URL(await makeSchemaUrl());
    const schema = url.searchParams.get('schema') ?? '';
    url.searchParams.delete('schema');
    return { kind: 'postgres', url: url.href, schema, dir: directory } as const;
  },
};

describe.each(Object.entries(places))('%s', (_, placeOf) => {
  test('operations that say that they need the ledger alone ask for nothing else', async () => {
    const place = await placeOf();
    const ledger = await openLedger(place, noRules);
    await ledger.close();
    const reader = await openFastRead(place);
    const inputs: Record<string, object> = {
      'job.inspect': { id: '0199' },
      'job.tree': { id: '0199' },
      'directive.show': { id: '0199' },
      'plugin.facts': { plugin: 'echo' },
    };
    for (const { name, needs } of operations) {
      if (needs !== 'ledger') continue;
      const result = await reader.caller
        .call(name, { ...inputs[name] })
        .catch((error: unknown) => error);
      const code = result instanceof DuctileError ? result.code : 'fine';
      expect([name, code, String(result)]).not.toContain('INTERNAL');
    }
    await reader.close();
  });
});

test('a running service can be called although its config.yaml has a syntax error since its start', async () => {
  const config = 'plugin_roots: [./plugins]\nstate:\n  path: ./data/state.db\n';
  const { log } = collectLog();
  const server = await openServer(loadConfig({ given: directory, env: {} }), log);
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => (closing ??= server.close());
  onTestFinished(close);
  writeFileSync(join(directory, 'config.yaml'), `${config}routes: [{\n`);
  const { code, out } = await ductile('status', '--json');
  expect([code, JSON.parse(out)]).toEqual([0, expect.objectContaining({ state: 'running' })]);
  expect((await ductile('config', 'check')).code).toBe(1);
  await close();
  expect(await ductile('status')).toMatchObject({
    code: 78,
    err: expect.stringContaining('config.yaml') as string,
  });
});
