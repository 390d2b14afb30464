/** `ductile ui` and `ductile docs` say where the sites really are. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { readControlKey } from '../../src/http/control-socket.ts';
import { startApi } from '../support/api-server.ts';
import { makeDirectory } from '../support/directory.ts';
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

test.each([
  [[], '/docs/', ''],
  [['errors#BUSY'], '/docs/reference/errors#busy', 'docs/reference/errors.md'],
  [['reference/errors.md'], '/docs/reference/errors', 'docs/reference/errors.md'],
  [['concepts/'], '/docs/concepts/', 'docs/concepts/README.md'],
  [['/docs/faq'], '/docs/faq', 'docs/faq.md'],
])('the documentation is shown with its address and its file: %j', async (words, address, file) => {
  const { code, out } = await run(['docs', ...words], set('0.0.0.0:8080'));
  expect(code).toBe(0);
  expect(out).toContain(`http://127.0.0.1:8080${address}\n`);
  expect(out).toContain('ductile system start');
  expect(out).toMatch(new RegExp(`^File: .*${file}\n`, 'm'));
  const remote = await run(['docs', ...words, '--url', 'https://ductile.example', '--json']);
  expect(JSON.parse(remote.out)).toEqual({
    address: `https://ductile.example${address}`,
    file: expect.stringContaining(file),
  });
});

test('the documentation can be read without a configuration', async () => {
  const answer = new DuctileError('CONFIG_NOT_FOUND', 'there is no configuration');
  const { code, out } = await run(['docs', 'faq'], { answer });
  expect({ code, out }).toEqual({ code: 0, out: expect.stringMatching(/^File: .*faq\.md\n$/) });
});

test('a name that no page or several pages have is refused with the names that are close', async () => {
  const unknown = await run(['docs', 'erors']);
  expect({ code: unknown.code, err: unknown.err }).toEqual({
    code: 2,
    err: expect.stringContaining('there is no page erors'),
  });
  const { err } = await run(['docs', 'pipelines']);
  expect(err).toContain('2 pages are named pipelines');
  expect(err).toContain('concepts/pipelines, guides/pipelines');
});

test('compressed pages are shown with a command that reads them', async () => {
  const directory = await makeDirectory();
  await writeFile(join(directory, 'faq.md.gz'), '');
  const { out } = await run(['docs', 'faq'], {
    ...set('[::]:8080'),
    host: { findDocs: () => directory },
  });
  expect(out).toContain('http://[::1]:8080/docs/faq\n');
  expect(out).toContain(`Without a browser: zless ${join(directory, 'faq.md.gz')}\n`);
});

test('the help ends with the documentation', async () => {
  expect((await run(['--help'])).out).toMatch(/\nDocumentation: ductile docs\n$/);
});
