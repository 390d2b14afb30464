/** Servers elsewhere: `--url`, `--token`, their variables, and `ductile api`. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { job, run } from '../support/fake-cli.ts';

async function serve(
  answer: (request: IncomingMessage, response: ServerResponse) => void | Promise<void>,
): Promise<string> {
  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const jobs = { jobs: [job], next_before: null };
const list = ['job', 'list', '--json'];

test('a token over plain HTTP to another machine comes with a warning, once', async () => {
  const argv = [...list, '--token', 't', '--url'];
  const env = { io: { env: {} } };
  const far = await run([...argv, 'http://ductile.invalid:1'], env);
  expect(far.err).toMatch(/^warning: the token goes to ductile\.invalid:1 over plain HTTP/);
  for (const near of ['http://127.0.0.1:1', 'http://localhost:1', 'https://ductile.invalid:1']) {
    expect((await run([...argv, near], env)).err).not.toContain('warning');
  }
  expect((await run([...list, '--url', 'http://ductile.invalid:1'], env)).err).not.toContain(
    'warn',
  );
});

describe('the choice of the service', () => {
  const seen = async (argv: readonly string[], env: Record<string, string>) => {
    const requests: (string | undefined)[] = [];
    const url = await serve(({ headers, url: path }, response) => {
      requests.push(path, headers.authorization);
      response.end(JSON.stringify(jobs));
    });
    const fill = (value: string): string => value.replace('URL', url);
    const named = Object.entries(env).map(([key, value]) => [key, fill(value)]);
    const ran = await run(argv.map(fill), { io: { env: Object.fromEntries(named) } });
    return { requests, ...ran };
  };

  test('the one that the environment names, with its token', async () => {
    const env = { DUCTILE_URL: 'URL', DUCTILE_TOKEN: 'secret-1' };
    const { requests, out, hostCalls } = await seen([...list, '--full'], env);
    expect(requests).toEqual(['/jobs', 'Bearer secret-1']);
    expect(JSON.parse(out)).toEqual(jobs);
    expect(hostCalls).toEqual([]);
  });

  test('flags come before the environment, and a path of a proxy is kept', async () => {
    const argv = [...list, '--url', 'URL/ductile/', '--token', 'secret-2'];
    const { requests } = await seen(argv, {
      DUCTILE_URL: 'http://127.0.0.1:1',
      DUCTILE_TOKEN: 'x',
    });
    expect(requests).toEqual(['/ductile/jobs', 'Bearer secret-2']);
  });

  test('a configuration that is named means its own server', async () => {
    const { requests, hostCalls } = await seen([...list, '--config', '/etc/d'], {
      DUCTILE_URL: 'URL',
    });
    expect(requests).toEqual([]);
    expect(hostCalls).toContainEqual(['findSocket', '/etc/d']);
  });

  test.each([
    [['--url', 'ftp://x'], 'not a valid server address'],
    [['--url', 'http://ann:pw@x'], 'DUCTILE_TOKEN'],
    [['--url', 'http://x', '--config', '/y'], 'cannot be used together'],
  ])('%j is refused', async (more, words) => {
    const { code, err } = await run([...list, ...more]);
    expect([code, err]).toEqual([2, expect.stringContaining(words)]);
  });

  test.each([
    ['system start'],
    ['config check'],
    ['config set service.name=x --apply'],
    ['init --yes'],
    ['pipeline check'],
    ['plugin test here'],
  ])('`%s` is about the files of this machine, and refuses another one', async (line) => {
    const { code, err, hostCalls } = await run([...line.split(' '), '--url', 'http://x']);
    expect([code, hostCalls, err]).toEqual([2, [], expect.stringContaining('this machine only')]);
  });

  test('files are those of this machine, whatever server the environment names', async () => {
    const { requests, hostCalls } = await seen(['config', 'check'], { DUCTILE_URL: 'URL' });
    expect(requests).toEqual([]);
    expect(hostCalls).toContainEqual(['openLocal', undefined, 'files']);
  });

  test('the doctor looks at the server that was named, else at the files here', async () => {
    const doctor = ['doctor', '--json'];
    const [far, named] = [
      await seen([...doctor, '--url', 'URL'], {}),
      await seen(doctor, { DUCTILE_URL: 'URL' }),
    ];
    for (const { requests, hostCalls } of [far, named]) {
      expect(requests).toEqual(['/system/doctor', undefined]);
      expect(hostCalls).toEqual([]);
    }
    const here = await seen([...doctor, '--config', '/etc/d'], { DUCTILE_URL: 'URL' });
    expect(here.requests).toEqual([]);
    expect(here.hostCalls).toContainEqual(['openLocal', '/etc/d', 'files']);
  });
});

describe('failures are reported', () => {
  const refusal = { error: 'a token is needed', code: 'UNAUTHORIZED', hint: 'h', retryable: false };
  const refuse = (_: IncomingMessage, response: ServerResponse): void =>
    void response.writeHead(401).end(JSON.stringify(refusal));

  test('a missing and a wrong token are two things', async () => {
    const url = await serve(refuse);
    const none = await run([...list, '--url', url]);
    expect([none.code, none.err]).toEqual([1, expect.stringContaining('Set DUCTILE_TOKEN')]);
    const wrong = await run([...list, '--url', url, '--token', 'tell-nobody']);
    expect(wrong.err).toMatch(/expired or revoked/);
    expect(JSON.parse(wrong.err)).toMatchObject({ code: 'UNAUTHORIZED', exit_code: 1 });
    expect(wrong.err).not.toContain('tell-nobody');
  });

  test('no service is there', async () => {
    const { code, err } = await run([...list, '--url', 'http://127.0.0.1:1']);
    expect([code, JSON.parse(err)]).toMatchObject([
      1,
      { code: 'SERVER_UNREACHABLE', place: 'http://127.0.0.1:1' },
    ]);
    expect(err).toContain('api.enabled');
  });

  test.each([
    ['a page', 200, '<html>hello</html>'],
    ['another API', 200, '{"hello":"world"}'],
    ['a proxy', 502, '{"message":"bad gateway"}'],
    ['a list', 200, '[1]'],
  ])('%s is not Ductile', async (_, status, body) => {
    const url = await serve((__, response) => void response.writeHead(status).end(body));
    const { code, err } = await run([...list, '--url', url]);
    expect([code, JSON.parse(err)]).toMatchObject([1, { code: 'SERVER_FOREIGN', place: url }]);
  });
});

test('the log of a server is read to its end, however long it is', async () => {
  const all = Array.from({ length: 1300 }, (_, at) => ({ seq: at + 1, level: 'info' }));
  const url = await serve(({ url: path = '' }, response) => {
    const query = new URL(path, 'http://x').searchParams;
    const after = Number(query.get('after') ?? 0);
    const logs = all.slice(after, after + Number(query.get('limit')));
    response.end(JSON.stringify({ process_id: 'p', last_seq: logs.at(-1)?.seq ?? after, logs }));
  });
  const lines = async (...more: readonly string[]): Promise<number[]> => {
    const argv = ['logs', '--core', '--since', '1d', '--json', '--url', url, ...more];
    const { out } = await run(argv);
    return (JSON.parse(out) as { logs: typeof all }).logs.map(({ seq }) => seq);
  };
  expect(await lines('--full')).toEqual(all.map(({ seq }) => seq));
  // Without, as many of the latest as fit.
  const latest = await lines();
  expect(latest).toEqual(all.slice(-latest.length).map(({ seq }) => seq));
  expect(latest.length).toBeGreaterThan(100);
  expect(await lines('-n', '2')).toEqual([1299, 1300]);
});

describe('api', () => {
  const echo = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method, url, headers } = request;
    const body = await text(request);
    const { accept, 'content-type': type } = headers;
    response.end(JSON.stringify({ method, url, body, type, accept }));
  };
  const call = async (...argv: string[]) => {
    const url = await serve(echo);
    const { out, code } = await run(['api', ...argv, '--url', url]);
    return { code, ...(JSON.parse(out) as Record<string, unknown>) };
  };

  test.each([
    [['/jobs?x=1'], { method: 'GET', url: '/jobs?x=1', body: '' }],
    [['jobs', '-X', 'get', '-f', 'limit=5'], { method: 'GET', url: '/jobs?limit=5' }],
    [['/a', '-f', 'n=1', '-f', 's=x=y'], { method: 'POST', body: '{"n":1,"s":"x=y"}' }],
    [['/a', '-b', '{"p":{}}'], { method: 'POST', body: '{"p":{}}', type: 'application/json' }],
    [['/a', '-b', 'x', '-f', 'q=1'], { url: '/a?q=1', body: 'x' }],
    [['/a', '-X', 'delete'], { method: 'DELETE', body: '' }],
    [['/a', '-X', 'delete', '-f', 's=ä'], { method: 'DELETE', body: '{"s":"ä"}' }],
    [['/a', '-X', 'get', '-b', 'x'], { method: 'GET', body: 'x' }],
    [['/a', '-H', 'Accept: text/plain'], { accept: 'text/plain' }],
  ])('%j', async (argv, sent) => {
    expect(await call(...argv)).toMatchObject({ code: 0, ...sent });
  });

  test('prints what came with an error too, and exits as its code says', async () => {
    const body = { error: 'bad', code: 'CONFIG_INVALID' };
    const url = await serve(
      (_, response) => void response.writeHead(400).end(JSON.stringify(body)),
    );
    const { out, code } = await run(['api', '/x', '-i', '--url', url]);
    expect(code).toBe(78);
    expect(out).toMatch(/^400 Bad Request\n/);
    expect(out).toContain('"code": "CONFIG_INVALID"');
  });

  test('needs a server', async () => {
    const { code, err } = await run(['api', '/jobs']);
    expect([code, err]).toEqual([
      1,
      expect.stringContaining('needs a service, and none runs here'),
    ]);
    expect((await run(['api', '/a', '-f', 'novalue'])).code).toBe(2);
  });
});
