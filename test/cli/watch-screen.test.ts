/** `ductile watch` with a real terminal, and without one. */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { constants } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { atEnd } from '../support/at-end.ts';
import { run } from '../support/fake-cli.ts';
import { eventually } from '../support/instance.ts';
import { startOnTerminal } from '../support/pseudo-terminal.ts';

const main = join(import.meta.dirname, '../../src/main.ts');
const { SIGTERM } = constants.signals;
/** Several programs start one after another, which a busy machine takes its time for. */
const PATIENCE_MS = 90_000;
const size = { columns: 90, rows: 24 };
let api: TestApi;

beforeAll(async () => {
  api = await startApi();
  atEnd(() => api.close());
});

function env(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const { PATH } = process.env;
  return {
    PATH,
    HOME: '/nonexistent',
    TERM: 'xterm',
    LANG: 'C.UTF-8',
    DUCTILE_TOKEN: OWNER,
    ...more,
  };
}

function argv(port = api.port): string[] {
  return [process.execPath, main, 'watch', '--url', `http://127.0.0.1:${port}`];
}

test(
  'a job appears and is cancelled with a key, the server goes and comes back, and q restores all',
  async () => {
    const proxy = await openProxy(0);
    const terminal = startOnTerminal(argv(proxy.port), { ...size, env: env() });
    await terminal.sees(/ductile live/);
    expect(terminal.written()).toContain('␛[?1049h');
    await api.ask('/plugin/sleeper/poll', { method: 'POST', body: '{}' });
    await terminal.sees(/● running +sleeper +poll/);
    // Text that was pasted presses no keys.
    terminal.press('\u001b[200~cyq\u001b[201~');
    terminal.press('c');
    const question = await terminal.sees(/cancel job .*\? y\/n/);
    expect(question).toMatch(/running/);
    terminal.press('y');
    await terminal.sees(/− cancelled +sleeper/);
    terminal.press('\r');
    await terminal.sees(/cancelled\n\nIt was cancelled\.[^]*token:owner requested it/);
    terminal.press('\u001b');
    await terminal.sees(/\[1 Jobs\]/);
    terminal.resize(40, 10);
    await terminal.sees(/\? help +q quit +↑↓ enter details +1-5 v…/);
    expect(terminal.screen()).toHaveLength(10);
    await proxy.close();
    await terminal.sees(/ductile LOST, reconnecting/);
    await openProxy(proxy.port);
    await terminal.sees(/ductile live/);
    terminal.press('q');
    expect(await terminal.ended()).toEqual({ code: 0, restored: true });
    expect(terminal.written()).toMatch(/␛\[\?25h␛\[\?1049l$/);
  },
  PATIENCE_MS,
);

test(
  'Ctrl-Z and SIGTERM give the terminal back',
  async () => {
    // A shell with job control, as people have it: it is what says that the program has stopped.
    const job = argv()
      .map((word) => `'${word}'`)
      .join(' ');
    const shell = [
      'sh',
      '-c',
      `set -m; ${job}; stty -a | tr ' ' '\\n' | grep -x icanon; fg >/dev/null`,
    ];
    const terminal = startOnTerminal(shell, { ...size, env: env({ NO_COLOR: '1' }) });
    await terminal.sees(/ductile live/);
    expect(terminal.written()).not.toMatch(/␛\[[\d;]*m/);
    terminal.press('\u001a');
    await eventually('it is back', () => terminal.written().split('␛[?1049h').length === 3);
    await terminal.sees(/ductile live/);
    terminal.signal(SIGTERM);
    expect(await terminal.ended()).toEqual({ code: 0, restored: true });
    expect(terminal.written()).toMatch(/␛\[\?1049l[^]*icanon[^]*␛\[\?1049h/);
  },
  PATIENCE_MS,
);

test('a crash restores the terminal, too', async () => {
  const { href } = new URL('../../extras/watch/terminal.ts', import.meta.url);
  const program = `import { Terminal } from '${href}';
    new Terminal({}, false).enter();
    setTimeout(() => { throw new Error('boom'); });`;
  const argvOfIt = [process.execPath, '--input-type=module', '-e', program];
  const terminal = startOnTerminal(argvOfIt, { ...size, env: env() });
  expect(await terminal.ended()).toEqual({ code: 1, restored: true });
  // The reason is on the screen that is left behind.
  expect(terminal.written()).toMatch(/␛\[\?1049h[^]*␛\[\?1049l[^]*boom/);
});

/** Another port of the same server, which can be closed without it. */
async function openProxy(port: number) {
  const sockets = new Set<Socket>();
  const proxy = createServer((near) => {
    const far = connect(api.port, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => sockets.delete(from));
    }
  });
  proxy.listen(port, '127.0.0.1');
  await once(proxy, 'listening');
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    if (!proxy.listening) return;
    proxy.close();
    await once(proxy, 'close');
  };
  onTestFinished(close);
  return { port: (proxy.address() as AddressInfo).port, close };
}

describe("an output that can't be drawn on", () => {
  const answer = (name: string) =>
    name === 'job.list' ? { jobs: [{ job_id: 'a', plugin: 'mail', status: 'dead' }] } : {};

  test.each([
    ["The output isn't a terminal", {}],
    ['TERM=dumb', { isTTY: true, isInTTY: true, env: { TERM: 'dumb' } }],
    ["The input isn't a terminal", { isTTY: true, env: { TERM: 'xterm' } }],
  ])('%s: everything once, and the reason', async (reason, io) => {
    const { out, err, code } = await run(['watch'], { answer, io });
    expect(code).toBe(0);
    expect(err).toContain(reason);
    expect(out).toMatch(/✗ dead +mail/);
    expect(out).not.toContain('\u001b');
  });

  test('--json is one document, and --once says nothing beside it', async () => {
    const { out, err } = await run(['watch', '--json'], { answer });
    expect(err).toBe('');
    expect(JSON.parse(out)).toMatchObject({
      taken_at: '2026-01-02T03:10:00.000Z',
      jobs: [{ job_id: 'a', status: 'dead' }],
      problems: [],
    });
    expect((await run(['watch', '--once'], { answer })).err).toBe('');
  });
});
