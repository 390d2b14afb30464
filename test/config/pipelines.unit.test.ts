import { beforeAll, describe, expect, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import type { Config } from '../../src/config/config.ts';
import type { Problem } from '../../src/config/problem.ts';
import { makeDirectory } from '../support/directory.ts';
import { writeConfig } from '../support/plugin-tree.ts';

let directory: string;

beforeAll(async () => {
  directory = await makeDirectory();
});

async function load(pipelines: string): Promise<Config> {
  return writeConfig(directory, `plugin_roots: [plugins]\npipelines:\n${pipelines}`, {
    LIMIT: '4',
  });
}

/** Problems as `line:column key message`. */
async function problems(pipelines: string): Promise<string[]> {
  const thrown: unknown = await load(pipelines).catch((error: unknown) => error);
  if (!(thrown instanceof DuctileError)) throw new Error('the configuration was accepted');
  expect(thrown.code).toBe('CONFIG_INVALID');
  const { details = {} } = thrown;
  return (details['problems'] as Problem[]).map(
    ({ place, key, message }) => `${place.slice(place.indexOf('.yaml:') + 6)} ${key} ${message}`,
  );
}

describe('pipelines', () => {
  test('the least one is complete', async () => {
    const { pipelines } = await load('  - {name: least, steps: [{uses: echo}]}\n');
    expect(pipelines).toMatchObject([
      {
        name: 'least',
        on: undefined,
        mode: 'async',
        timeoutMs: 30_000,
        maxFanout: 10_000,
        concurrency: undefined,
        steps: [{ id: 'step_1', mode: 'uses', uses: 'echo', onError: 'halt' }],
      },
    ]);
    expect(pipelines[0]?.locate(['steps', 0, 'uses'])).toEqual({
      place: `${directory}/config.yaml:3:28`,
      key: 'pipelines[0].steps[0].uses',
    });
  });

  test('all keys of a pipeline', async () => {
    const { pipelines, redacted } = await load(`
  - name: all
    on: photo.taken
    from_plugin: camera
    if: {path: payload.size, op: gt, value: 5}
    execution_mode: synchronous
    timeout: 3m
    max_fanout: 50
    concurrency: {key: "{payload.album}", limit: "\${LIMIT}"}
    on_halt: alarm.ring
    steps:
      - uses: echo.run
        with: {to: "{payload.user}", list: [1, "{payload.n}"]}
        baggage: {who: payload.user}
        retry: {max_attempts: 2, backoff_base: 1s}
        timeout: 10s
        on_error: continue
`);
    expect(pipelines).toMatchObject([
      {
        on: 'photo.taken',
        fromPlugin: 'camera',
        when: { path: ['payload', 'size'], op: 'gt', value: 5 },
        mode: 'synchronous',
        timeoutMs: 180_000,
        maxFanout: 50,
        concurrency: { key: { ref: ['payload', 'album'] }, limit: 4 },
        onHalt: 'alarm.ring',
        steps: [
          {
            with: {
              to: { ref: ['payload', 'user'] },
              list: { list: [{ value: 1 }, { ref: ['payload', 'n'] }] },
            },
            baggage: [{ to: ['who'], from: ['payload', 'user'] }],
            maxAttempts: 2,
            backoffBaseMs: 1000,
            timeoutMs: 10_000,
            onError: 'continue',
          },
        ],
      },
    ]);
    // The output has the original spelling.
    expect(redacted['pipelines']).toMatchObject([
      { name: 'all', timeout: '3m', concurrency: { limit: '${LIMIT}' } },
    ]);
  });

  test('a wait says from when on a signal counts', async () => {
    const { pipelines } = await load(`
  - name: waits
    steps:
      - wait: {signal: paid}
      - wait: {signal: paid, since: run}
      - wait: {signal: paid, since: now}
`);
    const signal = { type: 'paid', from: undefined, when: undefined };
    const steps = [{ signal }, { signal }, { signal: { ...signal, since: 'now' } }];
    expect(pipelines).toMatchObject([{ steps }]);
    expect(
      await problems(`
  - {name: waits, steps: [{wait: {delay: 1s, since: now}}]}
`),
    ).toEqual(['4:46 pipelines[0].steps[0].wait.since is only for a wait for a signal']);
  });

  test('a dependency is reported at once when it is invalid', async () => {
    expect(
      await problems(`
  - name: keyed
    steps:
      - {uses: echo, dependency: "repo {payload.repo}"}
      - {uses: echo, dependency: " "}
      - {uses: echo, dependency: 5}
      - {uses: echo, dependency: "{repo}"}
      - {wait: 1s, dependency: x}
`),
    ).toEqual([
      '7:22 pipelines[0].steps[1].dependency must not be blank',
      '8:22 pipelines[0].steps[2].dependency must be text',
      '9:22 pipelines[0].steps[3].dependency has {repo}, which must begin with payload. or context.',
      '10:20 pipelines[0].steps[4].dependency is only for steps with uses, not for wait',
    ]);
  });

  test('every fault is reported with its line and its key', async () => {
    const found = await problems(`
  - name: "bad name"
    onn: x
    steps:
      - {id: "1x", uses: echo}
      - {uses: echo, call: other}
      - {id: nothing}
      - {approve: Sure?, with: {a: 1}, retry: {max_attempts: 0}}
      - uses: echo
        with:
          to: "{payload.user"
          deep: {x: ["{nope}"]}
        if: {all: [{path: payload.x, op: like, value: 1}]}
      - {foreach: payload.items, until: 5m}
      - {switch: payload.kind}
      - {switch: payload.kind, cases: {a: [{use: echo}]}}
      - {cases: {a: []}}
      - {wait: {delay: 5, signal: x}}
      - {wait: {signal: x, if: "signal.a =="}, timeout: 1h}
      - {wait: 5m, timeout: 1h}
      - {relay: {to: x}}
      - {steps: []}
      - {uses: echo, timeout: 30d}
      - {id: __proto__, uses: echo}
  - {name: least, from_plugin: x, steps: [{uses: echo}]}
  - {name: least, max_depth: 3, on-hook: x, concurrency: 0, steps: [{uses: echo}]}
`);
    const required =
      'uses or one of call, split, foreach, switch, approve, wait, steps is required';
    expect(found).toEqual([
      '4:5 pipelines[0].name must be letters, digits, _, - and dots, and start with a letter or digit',
      '5:5 pipelines[0].onn is not a known key',
      '7:10 pipelines[0].steps[0].id must be at most 64 letters, digits, _ and -, ' +
        'and start with a letter or _',
      '8:22 pipelines[0].steps[1].call and uses exclude each other',
      `9:9 pipelines[0].steps[2].${required}`,
      '10:26 pipelines[0].steps[3].with is only for steps with uses, not for approve',
      '10:40 pipelines[0].steps[3].retry is only for steps with uses, not for approve',
      '10:48 pipelines[0].steps[3].retry.max_attempts must be at least 1, not 0',
      '13:11 pipelines[0].steps[4].with.to has a { that is not closed; write {{ for the brace',
      '14:22 pipelines[0].steps[4].with.deep.x[0] has {nope}, which must begin with payload. or context.',
      '15:38 pipelines[0].steps[4].if.all[0].op must be one of exists, eq, neq, in, gt, gte, lt, lte, ' +
        'contains, startswith, endswith, regex',
      '16:34 pipelines[0].steps[5].until is not a known key',
      '17:9 pipelines[0].steps[6].cases is required with switch',
      '18:45 pipelines[0].steps[7].cases.a[0].use is not a known key',
      '19:9 pipelines[0].steps[8].switch is required: the cases are compared with its value',
      '20:17 pipelines[0].steps[9].wait.delay needs a unit: 5',
      '21:28 pipelines[0].steps[10].wait.if is not an expression: Unexpected token: EOF',
      '22:20 pipelines[0].steps[11].timeout is only for a wait for a signal',
      '23:10 pipelines[0].steps[12].relay is not supported: there is no relay between instances',
      '24:10 pipelines[0].steps[13].steps must not be empty',
      '25:22 pipelines[0].steps[14].timeout must be at most 24d for uses',
      '26:10 pipelines[0].steps[15].id must be at most 64 letters, digits, _ and -, ' +
        'and start with a letter or _',
      '27:19 pipelines[1].from_plugin is only for pipelines with on',
      '28:6 pipelines[2].name is taken by another pipeline: "least"',
      '28:19 pipelines[2].max_depth is not needed: a pipeline cannot call itself, ' +
        'and chains end at service.max_hops',
      '28:33 pipelines[2].on-hook must be job.completed, job.failed or job.timed_out',
      '28:45 pipelines[2].concurrency must be at least 1, not 0',
    ]);
  });
});
