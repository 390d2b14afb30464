import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { isObject } from '../../src/base/json.ts';
import { DuctileError } from '../../src/base/errors.ts';
import type { Problem } from '../../src/config/problem.ts';
import { makeDirectory } from '../support/directory.ts';
import { writeConfig } from '../support/plugin-tree.ts';

let directory: string;

beforeAll(async () => {
  directory = await makeDirectory();
});

type Env = Readonly<Record<string, string>>;

async function load(yaml: string, env?: Env): Promise<Config> {
  return writeConfig(directory, yaml, env);
}

async function fail(yaml: string, env?: Env): Promise<DuctileError> {
  const thrown: unknown = await load(yaml, env).catch((error: unknown) => error);
  if (thrown instanceof DuctileError) return thrown;
  throw new Error('the configuration was accepted');
}

/** Problems as `line:column key message`. */
async function problems(yaml: string, env?: Env): Promise<string[]> {
  const { code, details = {} } = await fail(yaml, env);
  expect(code).toBe('CONFIG_INVALID');
  return (details['problems'] as Problem[]).map(
    ({ place, key, message }) => `${place.slice(place.indexOf('.yaml:') + 6)} ${key} ${message}`,
  );
}

describe('defaults', () => {
  test('the least configuration is complete', async () => {
    const config = await load('plugin_roots: [plugins]\n');
    const day = 24 * 3600 * 1000;
    expect(config).toMatchObject({
      file: join(directory, 'config.yaml'),
      directory,
      service: {
        name: 'ductile',
        logLevel: 'info',
        logFormat: 'auto',
        maxWorkers: Math.max(1, availableParallelism() - 1),
        dedupeTtlMs: day,
        jobQueueRetentionMs: 30 * day,
        jobLogRetentionMs: 30 * day,
        signalRetentionMs: 30 * day,
        factRetentionMs: 365 * day,
        contextRetentionMs: 30 * day,
        allowSymlinks: false,
        pluginEnvPassthrough: [],
        shutdownTimeoutMs: 30_000,
        heartbeatIntervalMs: 5000,
        reapAfterMs: 30_000,
        pollIntervalMs: 1000,
        maxCrashes: 10,
        maxHops: 32,
        runnerGraceMs: 3_600_000,
        spawner: 'auto',
      },
      state: {
        kind: 'sqlite',
        path: join(directory, 'data/state.db'),
        dir: join(directory, 'data'),
      },
      pluginRoots: [{ path: join(directory, 'plugins') }],
      routes: [],
      api: { enabled: false, host: '127.0.0.1', port: 8080 },
    });
    expect(config.pluginDefaults).toMatchObject({
      enabled: true,
      config: {},
      retry: { maxAttempts: 4, backoffBaseMs: 30_000 },
      parallelism: undefined,
      prewarm: undefined,
    });
  });

  test('keys without a value count as absent', async () => {
    const config = await load('plugin_roots: [p]\nservice:\nroutes:\nplugins:\n  echo:\n');
    expect(config.plugins['echo']).toMatchObject({ enabled: true, retry: { maxAttempts: 4 } });
    expect(config.service.name).toBe('ductile');
  });

  test('the loaded configuration is frozen to the bottom', async () => {
    const config = await load('plugin_roots: [p]\nplugins: {echo: {config: {a: {b: [1]}}}}\n');
    expect(Object.isFrozen(config.plugins)).toBe(true);
    const { a } = config.plugins['echo']?.config ?? {};
    expect(a).toEqual({ b: [1] });
    expect(isObject(a) && Object.isFrozen(a['b'])).toBe(true);
    expect(config.plugins['constructor']).toBeUndefined();
  });
});

describe('paths', () => {
  test('start at the configuration or at home, and roots are listed once', async () => {
    const config = await load(
      'plugin_roots: [plugins, ./plugins/, ~/mine, /opt/x]\nstate: {path: ~/d/s.db}\n',
    );
    expect(config.pluginRoots.map(({ path }) => path)).toEqual([
      join(directory, 'plugins'),
      '/people/somebody/mine',
      '/opt/x',
    ]);
    expect(config.state).toEqual({
      kind: 'sqlite',
      path: '/people/somebody/d/s.db',
      dir: '/people/somebody/d',
    });
  });
});

describe('state', () => {
  const roots = 'plugin_roots: [p]\n';

  test('database is another name for it', async () => {
    const { state } = await load(`${roots}database: {path: other.db}`);
    expect(state).toMatchObject({ path: join(directory, 'other.db') });
    expect(await problems(`${roots}state: {path: a}\ndatabase: {path: b}`)).toEqual([
      '3:1 database is another name for state; both are given',
    ]);
  });

  test('a url names its schema, which is not passed on to the driver', async () => {
    const url = 'postgres://u:p%40@localhost:5432/db?schema=team_a&sslmode=disable';
    const { state } = await load(`${roots}state: {url: "${url}"}`);
    expect(state).toEqual({
      kind: 'postgres',
      url: 'postgres://u:p%40@localhost:5432/db?sslmode=disable',
      schema: 'team_a',
      dir: join(directory, 'data'),
    });
    const plain = await load(`${roots}state: {url: "postgres:///db", dir: here}`);
    expect(plain.state).toMatchObject({ schema: 'ductile', dir: join(directory, 'here') });
  });

  test('path and url exclude each other', async () => {
    expect(await problems(`${roots}state: {path: a, url: "postgres://h/d"}`)).toEqual([
      '2:18 state.url and state.path exclude each other',
    ]);
  });

  test.each([
    ['mysql://h/d', 'is not a PostgreSQL URL'],
    ['postgres://h/d?schema=pg_x', 'names the schema "pg_x", which is not allowed'],
    ['postgres://h/d?schema=A-B', 'names the schema "A-B", which is not allowed'],
  ])('%s is refused', async (url, message) => {
    expect(await problems(`${roots}state: {url: "${url}"}`)).toEqual([`2:9 state.url ${message}`]);
  });

  test('an error never contains a password', async () => {
    const error = await fail(`${roots}state: {url: "\${URL}"}`, { URL: 'pg//me:hunter2@h' });
    expect(JSON.stringify(error)).not.toContain('hunter2');
  });
});

describe('problems', () => {
  test('all are reported together, in the order of the file', async () => {
    const found = await problems(`service:
  max_wrokers: 4
  log_level: inof
  dedupe_ttl: 5
  heartbeat_interval: 5s
  reap_after: 14s
plugins:
  echo:
    parallelism: 0
    confg: {}
    timeouts: {poll: 30d}
    config: {token: "\${TOKEN}"}
  "no good": {}
routes:
  - {event_type: x}
  - to: y
    event_type: " "
api: {listen: 8080}
pipelines: {}
`);
    expect(found).toEqual([
      '1:1 plugin_roots is required',
      '2:3 service.max_wrokers is not a known key',
      '3:3 service.log_level must be debug, info, warn or error, not "inof"',
      '4:3 service.dedupe_ttl needs a unit: 5',
      '6:3 service.reap_after must be at least 3 times service.heartbeat_interval, ' +
        'or live processes would be presumed dead',
      '9:5 plugins.echo.parallelism must be at least 1, not 0',
      '10:5 plugins.echo.confg is not a known key',
      '11:16 plugins.echo.timeouts.poll must be at most 24d',
      '12:14 plugins.echo.config.token uses the environment variable TOKEN, which is not set',
      '13:3 plugins["no good"] must be letters, digits, _, - and dots, and start with a letter or digit',
      '15:5 routes[0].to is required',
      '17:5 routes[1].event_type must not be blank',
      '18:7 api.listen must be text, not 8080',
      '19:1 pipelines must be a list, not a map of keys',
    ]);
  });

  test('an unknown key comes with the nearest known one, or with all', async () => {
    const near = await fail('plugin_roots: [p]\nservice: {maxWorkers: 3}\n');
    expect(near).toMatchObject({
      code: 'CONFIG_INVALID',
      message: 'service.maxWorkers is not a known key',
      place: `${join(directory, 'config.yaml')}:2:11`,
      hint: 'Did you mean max_workers?',
    });
    const far = await fail('plugin_roots: [p]\nwinter: {}\n');
    expect(far.hint).toContain('service, state, database, plugin_roots');
  });

  test.each([
    ['service: {job_attempts_retention: 1h}', 'service.job_log_retention'],
    ['service: {admission: {fail_on_sidedoor: true}}', 'Remove it'],
    ['tcc_paths: [/Users]', 'Remove it'],
    ['plugins: {mail: {schedule: {every: 5m}}}', 'schedules: [{ every: 5m }]'],
    ['api: {auth: {tokens: [{token: "0123456789", secret_ref: x}]}}', 'token: "${NAME}"'],
    ['secrets: {vault_file: x}', 'environment_vars.include'],
  ])('a key that others know is refused with what to do instead: %s', async (yaml, hint) => {
    const { message, hint: actualHint } = await fail(`plugin_roots: [p]\n${yaml}\n`);
    expect(message).toMatch(/is not (supported|needed|a key)|has no effect/);
    expect(actualHint).toContain(hint);
  });

  test('schedules with one id are found beside other faults of theirs', async () => {
    const text = 'plugin_roots: [p]\nplugins:\n  mail:\n    schedules:\n';
    const found = await problems(`${text}      - every: soon\n      - every: 5m\n`);
    expect(found).toEqual([
      expect.stringContaining('every is not a duration'),
      expect.stringContaining('id is taken by another schedule'),
    ]);
  });

  test('an unknown key is reported even when it has no value', async () => {
    expect(await problems('plugin_roots: [p]\nschedules:\n')).toEqual([
      '2:1 schedules is not a known key',
    ]);
  });

  test('an empty file, a list and broken YAML are problems of the file', async () => {
    expect(await problems('')).toEqual(['1:1 plugin_roots is required']);
    expect(await problems('- a\n')).toEqual(['1:1  the file must be a map of keys, not a list']);
    expect((await problems('a: [1\n'))[0]).toContain('2:1');
  });

  test('the message lists every place and hint', async () => {
    const { message } = await fail('service: {name: 5, max_hops: x}\nplugin_roots: []\n');
    const file = join(directory, 'config.yaml');
    expect(message).toBe(
      'The configuration has 3 problems: ' +
        `${file}:1:11: service.name must be text, not 5. ` +
        `${file}:1:20: service.max_hops must be a whole number, not "x". ` +
        `${file}:2:1: plugin_roots must not be empty.`,
    );
  });
});

describe('limits between keys', () => {
  const roots = 'plugin_roots: [p]\n';

  test('parallelism above the workers is not refused', async () => {
    const service = 'service: {max_workers: 2}\n';
    const config = await load(`${roots}${service}plugins: {a: {parallelism: 3}}`);
    expect(config.plugins['a']?.parallelism).toBe(3);
  });

  test('reap_after of exactly three beats is enough', async () => {
    const config = await load(`${roots}service: {heartbeat_interval: 1s, reap_after: 3s}`);
    expect(config.service.reapAfterMs).toBe(3000);
  });

  test('the queue is kept as long as duplicates are looked for', async () => {
    const found = await problems(`${roots}service: {dedupe_ttl: 2d, job_queue_retention: 1d}`);
    expect(found[0]).toContain('service.job_queue_retention must not be shorter');
    await load(`${roots}service: {dedupe_ttl: 1d, job_queue_retention: 1d}`);
  });

  test('prewarm has a ceiling', async () => {
    expect((await problems(`${roots}plugins: {a: {prewarm: 33}}`))[0]).toContain('at most 32');
  });
});

describe('environment variables', () => {
  test('replace text in values only, and can never become structure', async () => {
    const env = { A: 'x: {y: 1}\n- "z"', N: '3', T: 'true', E: '' };
    const config = await load(
      `plugin_roots: [p]
service: {max_workers: "\${N}", allow_symlinks: "\${T}"}
plugins:
  echo:
    config:
      all: "\${A}"
      parts: "<\${N}-\${E}-\${N}>"
      number: "\${N}"
      list: ["\${N}"]
      literal: "$\${N} $N $\${1}"
`,
      env,
    );
    expect(config.service).toMatchObject({ maxWorkers: 3, allowSymlinks: true });
    expect(config.plugins['echo']?.config).toEqual({
      all: env.A,
      parts: '<3--3>',
      number: '3',
      list: ['3'],
      literal: '${N} $N ${1}',
    });
  });

  test('a variable that is not set is named with its location and a fix', async () => {
    const error = await fail('plugin_roots: ["${ROOT}"]\n');
    expect(error.message).toContain('plugin_roots[0] uses the environment variable ROOT');
    expect(error.hint).toBe('Set ROOT, or write $${ROOT} for the text itself.');
  });

  test('names that every object has are not set either', async () => {
    expect((await problems('plugin_roots: ["${constructor}"]'))[0]).toContain('constructor');
  });

  test('a disabled plugin may name what is not set, an enabled one may not', async () => {
    const yaml = 'plugin_roots: [p]\nplugins: {a: {enabled: ${ON}, config: {t: ["${TOKEN}"]}}}\n';
    const off = await load(yaml.replace('${ON}', '"${ON}"'), { ON: 'false' });
    expect(off.plugins['a']).toMatchObject({ enabled: false, config: { t: ['${TOKEN}'] } });
    expect(await problems(yaml.replace('${ON}', 'true'))).toEqual([
      '2:43 plugins.a.config.t[0] uses the environment variable TOKEN, which is not set',
    ]);
  });

  test('a value that is wrong for want of a variable is reported once', async () => {
    expect(await problems('plugin_roots: [p]\nservice: {poll_interval: "${P}"}\n')).toHaveLength(1);
  });
});

describe('plugins, routes and the api', () => {
  test('durations and names arrive in the shape the program uses', async () => {
    const config = await load(`plugin_roots: [p]
plugins:
  a.b:
    uses: base
    retry: {max_attempts: 1}
    timeouts: {sync: 1h30m}
routes:
  - {from: a, event_type: x.y, to: a.b}
  - {event_type: z, to: base, command: sync}
api: {enabled: true, listen: "[::1]:0", auth: {api_key: k3y}}
`);
    expect(config.plugins['a.b']).toMatchObject({
      uses: 'base',
      retry: { maxAttempts: 1, backoffBaseMs: 30_000 },
      timeoutsMs: { sync: 5_400_000 },
      place: `${config.file}:3:3`,
    });
    expect(config.routes).toEqual([
      {
        from: 'a',
        eventType: 'x.y',
        shared: false,
        to: 'a.b',
        command: undefined,
        place: `${config.file}:8:5`,
      },
      {
        from: undefined,
        eventType: 'z',
        shared: false,
        to: 'base',
        command: 'sync',
        place: `${config.file}:9:5`,
      },
    ]);
    expect(config.api).toMatchObject({ enabled: true, host: '::1', port: 0 });
  });

  test.each([':8080', 'localhost:80', '0.0.0.0:65535'])('%s is an address', async (listen) => {
    await load(`plugin_roots: [p]\napi: {listen: "${listen}"}`);
  });

  test.each(['localhost', '8080', 'h:65536', '[x]:1', 'a b:1', '::1:80'])(
    '%s is not an address',
    async (listen) => {
      expect(await problems(`plugin_roots: [p]\napi: {listen: "${listen}"}`)).toEqual([
        '2:7 api.listen is not an address',
      ]);
    },
  );
});
