/** The service serves the documentation without a token, and nothing but the documentation. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { request } from 'node:http';
import { brotliDecompressSync } from 'node:zlib';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { makeLogger } from '../../src/base/log.ts';
import { listenControl } from '../../src/http/listeners.ts';
import { ownerOf } from '../../src/operation/context.ts';
import { readDocsPages } from '../../tools/site/pages.ts';
import { startApi, type TestApi } from '../support/api-server.ts';
import { makeDirectory } from '../support/directory.ts';
import { makeStubEngine } from '../support/stub-engine.ts';
import { root } from '../tidy/tree.ts';

const SITE_BYTES_MAX = 3_000_000;
const built = join(root, 'dist/docs');
const open = { token: undefined };
let api: TestApi;
let home: string;

beforeAll(async () => {
  api = await startApi();
  home = (await api.ask('/docs/', open)).text;
});

afterAll(() => api.close());

function findAsset(pattern: RegExp): string {
  const found = pattern.exec(home)?.[1];
  if (found === undefined) throw new Error(`the page has no ${String(pattern)}`);
  return found;
}

describe('a page', () => {
  test.each([
    '/docs/',
    '/docs/reference/errors',
    '/docs/concepts/',
    '/docs/faq.html',
    '/docs/?a=b',
  ])('is sent for %s', async (path) => {
    const { status, headers, text: html } = await api.ask(path, open);
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('text/html; charset=utf-8');
    expect(headers['cache-control']).toBe('no-cache');
    expect(html).toContain('<div id="app">');
  });

  test.each([
    ['/docs', '/docs/'],
    ['/docs/concepts', '/docs/concepts/'],
  ])('that is a folder has a slash: %s', async (path, location) => {
    const { status, headers } = await api.ask(path, open);
    expect([status, headers.location]).toEqual([308, location]);
  });

  test('allows its own files alone, and contains no script or style', async () => {
    const { headers } = await api.ask('/docs/', open);
    const policy = String(headers['content-security-policy']);
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toContain('unsafe');
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-resource-policy': 'same-origin',
    });
    const pages = await readDocsPages(join(root, 'docs'));
    for (const { route } of pages) {
      const { text: html, status } = await api.ask(`/docs/${route}`, open);
      expect(status, route).toBe(200);
      expect(/<style|<script(?![^>]*src)|<[^>]+ style=|<[^>]+\son\w+=/.exec(html)?.[0], route).toBe(
        undefined,
      );
    }
  });

  test('is not sent again to a browser that has it', async () => {
    const { headers } = await api.ask('/docs/', open);
    const again = { 'if-none-match': String(headers.etag) };
    const { status, text: html } = await api.ask('/docs/', { ...open, headers: again });
    expect([status, html]).toEqual([304, '']);
  });

  test('can only be read', async () => {
    const { status, headers } = await api.ask('/docs/', { ...open, body: '{}' });
    expect([status, headers['allow']]).toEqual([405, 'GET, HEAD']);
    const head = await api.ask('/docs/', { ...open, method: 'HEAD' });
    expect([head.status, head.text]).toEqual([200, '']);
    expect(head.headers['content-length']).toBe(String(Buffer.byteLength(home)));
  });

  test('is refused to a browser that uses another host name', async () => {
    const { status } = await api.ask('/docs/', { ...open, headers: { host: 'evil.example' } });
    expect(status).toBe(421);
  });
});

describe('its files', () => {
  test('are cached without a limit, and compressed for clients that can unpack them', async () => {
    const script = findAsset(/type="module" src="([^"]+)"/);
    const { headers, text: plain } = await api.ask(script, open);
    expect(headers['cache-control']).toBe('public, max-age=31536000, immutable');
    expect(headers['content-type']).toBe('text/javascript; charset=utf-8');
    const response = await fetch(`http://127.0.0.1:${api.port}${script}`, {
      headers: { 'accept-encoding': 'gzip' },
    });
    expect(response.headers.get('content-encoding')).toBe('gzip');
    expect(await response.text()).toBe(plain);
  });

  test('include the index of the search', async () => {
    const archive = String(brotliDecompressSync(await readFile(join(built, 'site.br'))));
    const [, index = ''] = /"(assets\/chunks\/@localSearchIndex[^"]+)"/.exec(archive) ?? [];
    const { status, text: script } = await api.ask(`/docs/${index}`, open);
    expect(status).toBe(200);
    expect(script).toContain('AGENT_UNAVAILABLE');
  });

  test.each([
    '/docs/no/such/page',
    '/docs/assets/none.js',
    '/docs/../package.json',
    '/docs/assets/../../ui/index.html',
    '/docs/..%2f..%2fpackage.json',
    '/docs/%2e%2e/%2e%2e/package.json',
    '/docs/README.md.gz',
    '/docs//etc/passwd',
    '/docs/__proto__',
  ])('that are not there are the page about that: %s', async (path) => {
    const { status, headers, text: html } = await api.ask(path, open);
    expect([status, headers['content-type']]).toEqual([404, 'text/html; charset=utf-8']);
    expect(html).toContain('<title>404');
    expect(headers['cache-control']).toBe('no-cache');
  });

  test('add less than 3 MB to the package, and carry their licenses', async () => {
    const names = await readdir(built, { recursive: true });
    const sizes = await Promise.all(
      names.map(async (name) => {
        const found = await stat(join(built, name));
        return found.isFile() ? found.size : 0;
      }),
    );
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(SITE_BYTES_MAX);
    const { text: notices } = await api.ask('/docs/NOTICES.txt', open);
    for (const name of ['vue', 'vitepress', 'minisearch', 'mark.js', '@vueuse/core'])
      expect(notices).toContain(`\n${name.replace(/^vue$/, '@vue/runtime-core')}\n`);
  });
});

describe('the pages for language models', () => {
  test('are Markdown, listed in llms.txt and joined in llms-full.txt', async () => {
    const { text: list, headers } = await api.ask('/docs/llms.txt', open);
    expect(headers['content-type']).toBe('text/plain; charset=utf-8');
    const paths = [...list.matchAll(/\]\((\/docs\/[^)]+)\)/g)].map(([, path = '']) => path);
    expect(paths.length).toBe((await readDocsPages(join(root, 'docs'))).length);
    const { text: whole } = await api.ask('/docs/llms-full.txt', open);
    for (const path of paths) {
      const { text: page, headers: of } = await api.ask(path, open);
      expect(of['content-type']).toBe('text/markdown; charset=utf-8');
      expect(whole).toContain(page.slice(0, 200));
    }
  });
});

describe('an error', () => {
  test('names the page about its code, and the page has that anchor', async () => {
    const { body } = await api.ask('/job/0199', { token: 'wrong-token-0123456789' });
    expect(body['docs']).toBe('/docs/reference/errors#unauthorized');
    const { text: page } = await api.ask('/docs/reference/errors', open);
    expect(page).toContain('id="unauthorized"');
  });
});

test('with `api.discovery: token` the documentation needs a token', async () => {
  const closed = await startApi({ api: { discovery: 'token' } });
  onTestFinished(() => closed.close());
  const { status, body } = await closed.ask('/docs/', open);
  expect([status, body['code']]).toEqual([401, 'UNAUTHORIZED']);
  expect((await closed.ask('/docs/')).status).toBe(200);
});

describe('the control socket', () => {
  async function askSocket(docs: string): Promise<{ status: number | undefined; html: string }> {
    const engine = await makeStubEngine();
    const directory = await makeDirectory();
    const owner = { stateDir: directory, tempDir: directory, uid: process.getuid?.() ?? 0 };
    const context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' } as const;
    const quiet = makeLogger({
      level: 'error',
      format: 'json',
      destination: { write: () => undefined },
    });
    const listener = await listenControl(owner, context, quiet, { docs });
    onTestFinished(async () => {
      await listener.close();
      await engine.ledger.close();
    });
    return await new Promise((resolve, reject) => {
      request({ socketPath: listener.address, path: '/docs/', agent: false }, (response) => {
        text(response).then((html) => resolve({ status: response.statusCode, html }), reject);
      })
        .on('error', reject)
        .end();
    });
  }

  test('serves the documentation, too', async () => {
    expect((await askSocket(built)).status).toBe(200);
  });

  test('says how to build the documentation if that was not done', async () => {
    const { status, html } = await askSocket(await makeDirectory());
    expect(status).toBe(404);
    expect(html).toContain('tools/build-docs');
  });
});
