/** The dashboard's files are served without a token, with a strict content security policy. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/api-server.ts';

let api: TestApi;
let script: string;
const open = { token: undefined };

beforeAll(async () => {
  api = await startApi();
  const { text } = await api.ask('/ui', open);
  script = /src="([^"]+\.js)"/.exec(text)?.[1] ?? '';
});

afterAll(() => api.close());

describe('the page', () => {
  test.each(['/ui', '/ui/', '/ui/jobs', '/ui/runs/0199?x=1', '/ui/a/b/c', '/ui/../etc'])(
    'is the same at %s',
    async (path) => {
      const { status, headers, text } = await api.ask(path, open);
      expect(status).toBe(200);
      expect(headers['content-type']).toBe('text/html; charset=utf-8');
      expect(headers['cache-control']).toBe('no-cache');
      expect(text).toContain('<div id="app">');
    },
  );

  test('allows its own files alone', async () => {
    const { headers, text } = await api.ask('/ui', open);
    const policy = String(headers['content-security-policy']);
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(policy).not.toContain('unsafe');
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    });
    expect(text).not.toMatch(/<style|<script(?![^>]*src)|style=|\son\w+=/);
  });

  test('is not sent again to a browser that has it', async () => {
    const { headers } = await api.ask('/ui', open);
    const again = await api.ask('/ui', {
      ...open,
      headers: { 'if-none-match': String(headers.etag) },
    });
    expect([again.status, again.text]).toEqual([304, '']);
  });
});

describe('its files', () => {
  test('are kept for ever, since their names change with them', async () => {
    const { status, headers } = await api.ask(script, open);
    expect(status).toBe(200);
    expect(headers['cache-control']).toBe('public, max-age=31536000, immutable');
    expect(headers['content-type']).toBe('text/javascript; charset=utf-8');
  });

  test('are small, and compressed for clients that can unpack them', async () => {
    const response = await fetch(`http://127.0.0.1:${api.port}${script}`, {
      headers: { 'accept-encoding': 'gzip' },
    });
    expect(response.headers.get('content-encoding')).toBe('gzip');
    expect(Number(response.headers.get('content-length'))).toBeLessThan(60 * 1024);
    expect(await response.text()).toBe((await api.ask(script, open)).text);
  });

  test('that are not there are not there', async () => {
    for (const path of ['/ui/assets/none.js', '/ui/assets/../../package.json', '/ui/assets/']) {
      const { status, body } = await api.ask(path, open);
      expect([status, body['code']]).toEqual([404, 'ENDPOINT_NOT_FOUND']);
    }
  });

  test('can only be read', async () => {
    const { status, headers } = await api.ask('/ui', { ...open, body: '{}' });
    expect([status, headers['allow']]).toEqual([405, 'GET, HEAD']);
    expect((await api.ask('/ui', { ...open, method: 'HEAD' })).status).toBe(200);
  });
});

test('a page of another name does not get in', async () => {
  const { status } = await api.ask('/ui', { ...open, headers: { host: 'evil.example' } });
  expect(status).toBe(421);
});
