/** Numbers that a double can't hold, through everything that carries data, on both databases. */
import { createHmac } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { run } from '../support/fake-cli.ts';
import { databases, eventually, type Database } from '../support/instance.ts';
import { normalizeNumbers, numberText } from '../support/number-texts.ts';
import { shell } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';

const FIELDS = [
  '"int":12345678901234567890',
  '"near":9007199254740993',
  '"negative":-9223372036854775809',
  '"huge":1e400',
  '"tiny":1.5e-400',
  '"decimal":0.1234567890123456789',
  '"money":999999999999999.99',
  '"list":[18446744073709551615,{"deep":10000000000000000000000001}]',
];
const NUMBERS = `{${FIELDS.join(',')}}`;

interface Place {
  readonly api: TestApi;
  /** The request of a plugin, as the bytes that it read. */
  readonly asked: (plugin: string) => Promise<string>;
}

async function open(database: Database): Promise<Place> {
  let place = '';
  const notes = (name: string): string => `cat >> ../../asked-${name}; echo >> ../../asked-${name}`;
  const answer = (fields: string): string => `echo '{"status":"ok","result":"done"${fields}}'`;
  const api = await startApi({
    database,
    webhooks: { listen: '127.0.0.1:0' },
    routes: [{ event_type: 'numbers.made', to: 'sink' }],
    pipelines: [
      {
        name: 'flow',
        on: 'numbers.made',
        steps: [
          {
            id: 'pass',
            uses: 'passer.handle',
            if: 'payload.near == 9007199254740993 && payload.near != 9007199254740992 && payload.int > payload.near',
            baggage: { 'carried.int': 'payload.int' },
          },
          {
            id: 'end',
            uses: 'ender.handle',
            if: { path: 'payload.near', op: 'gt', value: 9007199254740991 },
            with: { whole: '{context.carried.int}', text: 'number {payload.near}' },
          },
        ],
      },
    ],
    async prepare(directory) {
      place = directory;
      const events = `,"events":[{"type":"numbers.made","payload":${NUMBERS}}]`;
      const programs: readonly (readonly [string, string, string?])[] = [
        ['source', answer(`${events},"state_updates":${NUMBERS}`)],
        [
          'snapshot',
          answer(`,"state_updates":${NUMBERS}`),
          'fact_outputs: [{when: {command: handle}, fact_type: numbers, compatibility_view: mirror_object}]',
        ],
        ['sink', answer('')],
        [
          'leaker',
          answer(
            `,"events":[{"type":"numbers.made","payload":{"password":"hunter2hunter2",${FIELDS.join(',')}}}]`,
          ),
        ],
        // Its state is its payload, by the bytes.
        [
          'mirror',
          String.raw`list=$(tail -n 2 ../../asked-mirror | sed -n 's/.*"list":\(\[[^]]*\]\).*/\1/p')
echo "{\"status\":\"ok\",\"result\":\"done\",\"state_updates\":{\"list\":$list}}"`,
        ],
        ['passer', answer(`,"events":[{"type":"passed","payload":{"near":9007199254740993}}]`)],
        ['ender', answer('')],
      ];
      const schema = '{type: object, properties: {near: {type: integer}, money: {type: number}}}';
      for (const [name, program, extra = ''] of programs) {
        await writePlugin(join(directory, 'plugins', name), {
          name,
          entrypoint: 'run',
          program: shell(`${notes(name)}\n${program}`),
          commands: `commands: {handle: {input_schema: ${schema}}, poll: {}}`,
          extra,
        });
      }
    },
  });
  onTestFinished(() => api.close());
  const readRequest = (plugin: string): Promise<string> =>
    readFile(join(place, `asked-${plugin}`), 'utf8').catch(() => '');
  return { api, asked: readRequest };
}

function expectAll(text: string): void {
  expect(FIELDS.filter((field) => !text.includes(field))).toEqual([]);
}

async function finished(api: TestApi, path: string, body: string): Promise<string> {
  const reply = await api.ask(path, { body });
  expect([path, reply.status, reply.text]).toEqual([path, 200, expect.any(String)]);
  expect(reply.body['status']).toBe('succeeded');
  return String(reply.body['job_id']);
}

describe.each(databases)('on %s', (database) => {
  test('a plugin’s output reaches the signal, the route, the pipeline and the next plugin', async () => {
    const { api, asked } = await open(database);
    await finished(api, '/plugin/source/handle?wait=1m', '{}');
    await eventually('the route and the pipeline are done', async () => {
      const [sink, ender] = await Promise.all([asked('sink'), asked('ender')]);
      return sink.includes('\n') && ender.includes('\n');
    });
    expectAll(await asked('sink'));
    expectAll(await asked('passer'));
    const ender = await asked('ender');
    expect(ender).toContain('"whole":12345678901234567890');
    expect(ender).toContain('"text":"number 9007199254740993"');
    expect(ender).toContain('"carried":{"int":12345678901234567890}');
    const signals = await api.ask('/signals?type=numbers.made');
    const [signal] = signals.body['signals'] as { signal_id: string }[];
    const one = await api.ask(`/signals/${signal?.signal_id}`);
    expectAll(one.text);
    const events = await api.ask('/events?after=start&type=numbers.made', {
      headers: { accept: 'application/json' },
    });
    expectAll(events.text);
    const stream = await api.raw(
      `GET /events?after=start&type=numbers.made HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${OWNER}\r\n\r\n`,
      /data: .*\n\n/,
    );
    expectAll(stream);
    const runs = await api.ask('/runs');
    const [run_] = runs.body['runs'] as { run_id: string }[];
    expect((await api.ask(`/runs/${run_?.run_id}`)).text).toContain('12345678901234567890');
    const before = (await asked('sink')).length;
    const replayed = await api.ask('/signals/replay', {
      body: JSON.stringify({ type: 'numbers.made', force: true }),
    });
    expect([replayed.status < 300, replayed.text]).toEqual([true, expect.any(String)]);
    await eventually('it was replayed', async () => (await asked('sink')).length > before);
    expectAll((await asked('sink')).slice(before));
  });

  test('state and facts keep them, merged or whole', async () => {
    const { api, asked } = await open(database);
    await finished(api, '/plugin/source/handle?wait=1m', '{}');
    await finished(api, '/plugin/source/handle?wait=1m', '{"other":1}');
    const [, second = ''] = (await asked('source')).split('\n').filter(Boolean);
    expectAll(second.slice(second.indexOf('"state":')));
    await finished(api, '/plugin/snapshot/handle?wait=1m', '{}');
    expectAll((await api.ask('/plugin/snapshot/facts')).text);
    await finished(api, '/plugin/snapshot/handle?wait=1m', '{}');
    const [, again = ''] = (await asked('snapshot')).split('\n').filter(Boolean);
    expectAll(again.slice(again.indexOf('"state":')));
  });

  test('numbers of callers reach the plugin: the API, a signal, a webhook, an agent, the command line', async () => {
    const { api, asked } = await open(database);
    const take = async (): Promise<string> => {
      const text = await eventually('it was asked', async () => {
        const whole = await asked('sink');
        return whole.slice(seen).trim() !== '' && whole.endsWith('\n') && whole;
      });
      const fresh = text.slice(seen);
      seen = text.length;
      return fresh;
    };
    let seen = 0;
    const job = await finished(api, '/plugin/sink/handle?wait=1m', NUMBERS);
    expectAll(await take());
    expectAll((await api.ask(`/job/${job}`)).text);

    const signal = await api.ask('/signals', {
      body: `{"type":"numbers.made","source":"test","data":${NUMBERS}}`,
    });
    expect(signal.status).toBe(201);
    expectAll(await take());

    const made = await api.ask('/webhooks', {
      body: JSON.stringify({
        title: 'T',
        id: 'gh',
        plugin: 'sink',
        command: 'handle',
        auth_mode: 'github',
      }),
    });
    const mac = createHmac('sha256', String(made.body['secret'])).update(NUMBERS).digest('hex');
    const delivered = await api.deliver('/hooks/gh', {
      body: NUMBERS,
      headers: { 'x-hub-signature-256': `sha256=${mac}`, 'x-github-delivery': 'd-1' },
    });
    expect([delivered.status, delivered.text]).toEqual([202, expect.any(String)]);
    expectAll(await take());

    const params = `{"name":"run_sink_handle","arguments":{"payload":${NUMBERS}}}`;
    const called = await api.ask('/mcp', {
      headers: { accept: 'application/json, text/event-stream' },
      body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`,
    });
    expect([called.status, called.text]).toEqual([
      200,
      expect.not.stringContaining('"isError":true'),
    ]);
    expectAll(await take());

    const url = `http://127.0.0.1:${api.port}`;
    const argv = ['plugin', 'run', 'sink', '-c', 'handle', '--payload', NUMBERS, '--json'];
    const ran = await run([...argv, '--url', url, '--token', OWNER], { io: { env: {} } });
    expect([ran.code, ran.err]).toEqual([0, '']);
    expectAll(await take());
    const last = await api.ask('/jobs?plugin=sink&limit=1');
    const [row] = last.body['jobs'] as { job_id: string }[];
    const shown = await run(
      ['job', 'show', String(row?.job_id), '--json', '--url', url, '--token', OWNER],
      { io: { env: {} } },
    );
    expectAll(shown.out.replaceAll(/\n\s*|(?<=":) /g, ''));
  });

  test('numbers in a masked signal are sealed, and replayed as they were', async () => {
    const { api, asked } = await open(database);
    await finished(api, '/plugin/leaker/handle?wait=1m', '{}');
    await eventually('the route is done', async () => (await asked('sink')).endsWith('\n'));
    const first = await asked('sink');
    expect(first).toContain('hunter2hunter2');
    expectAll(first);
    const shown = await api.ask('/signals?type=numbers.made');
    const [signal] = shown.body['signals'] as { signal_id: string }[];
    const one = await api.ask(`/signals/${signal?.signal_id}`);
    expect(one.text).not.toContain('hunter2hunter2');
    expectAll(one.text);
    await api.ask('/signals/replay', {
      body: JSON.stringify({ type: 'numbers.made', force: true }),
    });
    const again = await eventually('it was replayed', async () => {
      const whole = await asked('sink');
      return whole.slice(first.length).trim() !== '' && whole.endsWith('\n') && whole;
    });
    expect(again.slice(first.length)).toContain('hunter2hunter2');
    expectAll(again.slice(first.length));
  });

  test('any numbers at all come back as they went out', async () => {
    const { api, asked } = await open(database);
    const list = `[${fc.sample(numberText, 500).join(',')}]`;
    await finished(api, '/plugin/mirror/handle?wait=1m', `{"list":${list}}`);
    await finished(api, '/plugin/mirror/handle?wait=1m', '{}');
    const [first = '', second = ''] = (await asked('mirror')).split('\n').filter(Boolean);
    // The first time they are the payload, the second time the state that the plugin made of it.
    for (const request of [first, second]) {
      const found = /"list":(\[[^\]]*\])/.exec(request)?.[1] ?? '';
      expect(normalizeNumbers(found)).toBe(normalizeNumbers(list));
    }
  });

  test('a schema decides about them by the nearest double', async () => {
    const { api } = await open(database);
    const ask = (body: string) => api.ask('/plugin/sink/handle', { body });
    expect((await ask('{"near":9007199254740993}')).status).toBe(202);
    const refused = await ask('{"near":0.1234567890123456789}');
    expect(refused).toMatchObject({ status: 400, body: { place: 'payload.near' } });
  });

  test('a field that takes an ordinary number refuses them as they were written', async () => {
    const { api } = await open(database);
    const limit = await api.ask('/jobs?limit=12345678901234567890');
    expect(limit).toMatchObject({ status: 400, body: { place: 'limit' } });
    expect(limit.body['error']).toContain('12345678901234567890');
  });
});
