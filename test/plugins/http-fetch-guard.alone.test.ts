/** The guard itself, with names that resolve as an attacker would like. */
import { lookup } from 'node:dns/promises';
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { fetchChecked, headersFor, type FetchOptions } from '../../plugins/http-fetch/fetch.ts';
import type { Guard } from '../../plugins/lib/network-guard.ts';
import { startWebServer, type WebServer } from '../support/web-server.ts';

vi.mock('node:dns/promises', () => ({ lookup: vi.fn<() => Promise<unknown>>() }));

let server: WebServer;

beforeAll(async () => {
  server = await startWebServer((_request, response) => response.end('inside'));
});

afterEach(() => {
  server.received.length = 0;
});

describe('names', () => {
  test('are resolved once: what was checked is what is connected to', async () => {
    resolveTo('127.0.0.1');
    const url = new URL(`http://rebind.invalid:${server.port}/`);
    const { body } = await fetchChecked(
      url,
      options({ allowHosts: [`rebind.invalid:${server.port}`], allowPrivate: true }),
    );
    expect(body.toString()).toBe('inside');
    expect(server.received[0]?.headers.host).toBe(`rebind.invalid:${server.port}`);
    expect(lookup).toHaveBeenCalledTimes(1);
  });

  test.each([
    ['one inside', ['127.0.0.1']],
    ['several inside', ['127.0.0.1', '127.0.0.2']],
    ['a mapped form', ['::ffff:127.0.0.1']],
  ])('are refused when they lead to %s', async (_what, addresses) => {
    resolveTo(...addresses);
    const url = new URL(`http://innocent.invalid:${server.port}/`);
    await expect(fetchChecked(url, options({}))).rejects.toThrow('must not be reached');
    expect(server.received).toEqual([]);
  });

  // Addresses of other machines are checked in network-guard.test.ts, where nothing can connect.
  test('that were named may be private, and never a form that hides an address', async () => {
    resolveTo('::ffff:127.0.0.1');
    const guard = { allowHosts: ['hidden.invalid'], allowPrivate: true };
    const url = new URL('http://hidden.invalid/');
    await expect(fetchChecked(url, options(guard))).rejects.toThrow('must not be reached');
  });

  test('outside of the list are not even resolved', async () => {
    const guard = { allowHosts: ['*.example.com', 'exact.test:8080'] };
    const refused = [
      'http://example.com/',
      'http://evilexample.com/',
      'http://exact.test/',
      'http://127.0.0.1/',
    ];
    vi.mocked(lookup).mockClear();
    for (const url of refused) {
      await expect(fetchChecked(new URL(url), options(guard))).rejects.toThrow(
        'config.allow_hosts',
      );
    }
    expect(lookup).not.toHaveBeenCalled();
  });
});

describe('headers', () => {
  const operatorHeaders = { authorization: 'Bearer operator' };
  const ownHeaders = { 'x-mine': 'payload' };
  const start = new URL('https://a.test/');

  test('from the operator go only to hosts that the operator named', () => {
    const some = { ...options({ ownOrigin: 'https://a.test' }), operatorHeaders };
    expect(headersFor(start, start, some)).toMatchObject(operatorHeaders);
    for (const address of [
      'https://b.test/',
      'http://a.test/',
      'http://a.test:443/',
      'https://a.test:8443/',
      'https://x.a.test/',
    ]) {
      const url = new URL(address);
      expect(headersFor(url, url, some)).not.toHaveProperty('authorization');
    }
  });

  test('from the operator do not follow a redirect to another origin, even a named one', () => {
    const some = { ...options({ allowHosts: ['a.test', 'b.test'] }), operatorHeaders };
    expect(headersFor(start, start, some)).toMatchObject(operatorHeaders);
    expect(headersFor(new URL('https://b.test/'), start, some)).not.toHaveProperty('authorization');
  });

  test('from the payload go only to the origin that it named', () => {
    const some = { ...options({}), ownHeaders };
    expect(headersFor(start, start, some)).toMatchObject(ownHeaders);
    expect(headersFor(new URL('https://b.test/'), start, some)).not.toHaveProperty('x-mine');
  });
});

function resolveTo(...addresses: string[]): void {
  const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  vi.mocked(lookup)
    .mockReset()
    .mockResolvedValue(found as never);
}

function options(guard: Partial<Guard>): FetchOptions {
  return {
    method: 'GET',
    guard: { allowHosts: [], allowPrivate: false, ownOrigin: undefined, ...guard },
    operatorHeaders: {},
    ownHeaders: {},
    isAccepted: () => true,
    bytesMax: 1000,
    redirectsMax: 5,
    signal: AbortSignal.timeout(5_000),
  };
}
