import { describe, expect, test } from 'vitest';
import { runError } from '../support/plugin-process.ts';
import { startRawServer } from '../support/web-server.ts';

describe('http-fetch', () => {
  test.each([
    ['until the server closes', 'HTTP/1.1 200 OK\r\n\r\nonly this', true],
    ['with a length', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this', true],
    ['in chunks', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nonly this\r\n', true],
    ['with a length, closed early', 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly', false],
    [
      'in chunks, closed early',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nonly',
      false,
    ],
  ])('does not take a body %s that was cut for a whole one', async (_, text, isLeftOpen) => {
    const raw = await startRawServer(text, isLeftOpen);
    const config = { url: raw.url, allow_private: true, timeout_ms: 700 };
    const { error, retry } = await runError('http-fetch', { command: 'poll', config });
    expect(error).toMatch(
      isLeftOpen ? /took longer/ : /could not be fetched|before it was complete/,
    );
    expect(retry).toBe(true);
  });
});
