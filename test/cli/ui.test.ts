/** `ductile ui` says where the dashboard really is. */
import { expect, onTestFinished, test } from 'vitest';
import { readControlKey } from '../../src/http/control-socket.ts';
import { startApi } from '../support/api-server.ts';
import { run } from '../support/fake-cli.ts';

function set(listen: string) {
  return { answer: { config: { api: { enabled: true, listen } } } };
}

test('a running service is shown with the port that it got', async () => {
  const api = await startApi();
  onTestFinished(() => api.close());
  const socketPath = api.server.surfaces.control;
  const key = readControlKey(socketPath, { stateDir: api.server.instance.config.state.dir });
  const host = { findSocket: () => Promise.resolve({ socketPath, key }) };
  const address = `http://127.0.0.1:${api.port}/ui`;
  const { code, out } = await run(['ui'], { host });
  expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining(`${address}\n`) });
  expect(out).not.toContain('is not running');
  expect(JSON.parse((await run(['ui', '--json'], { host })).out)).toEqual({ address });
});

test('a remote service is shown with its address', async () => {
  const { code, out, calls } = await run(['ui', '--url', 'https://ductile.example']);
  expect({ code, calls }).toEqual({ code: 0, calls: [] });
  expect(out).toContain('https://ductile.example/ui\n');
});

test('without a service, the command prints the future address and that nothing runs yet', async () => {
  const { code, out } = await run(['ui'], set('0.0.0.0:8080'));
  expect(code).toBe(0);
  expect(out).toContain('http://127.0.0.1:8080/ui\n');
  expect(out).toContain('ductile system start');
});

test('the command says how to enable the dashboard', async () => {
  const { code, out } = await run(['ui'], { answer: { config: { api: { enabled: false } } } });
  expect({ code, out }).toEqual({ code: 1, out: expect.stringContaining('api.enabled=true') });
});
