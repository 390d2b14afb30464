/** Signed bodies with a wrong type, an endless length or a missing end. */
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  mac,
  openAttackedService,
  parseResponse,
  type AttackedService,
  type Lines,
  type AttackResponse,
} from '../support/webhook-attacks.ts';

const MB = 1024 * 1024;
const FILES =
  '{"files":{"upload":{"filepath":"/etc/passwd","originalFilename":"x"}},"message":"a"}';

let at: AttackedService;
let secret: string;
beforeAll(async () => {
  at = await openAttackedService();
  secret = await at.open('gh', { plugin: 'echo', auth_mode: 'github' });
  expect((await send('{"message":"hi"}')).status).toBe(202);
});
afterAll(() => at.api.close());

function proof(body: string | Buffer): Lines {
  return [['x-hub-signature-256', `sha256=${mac(secret, body, 'hex')}`]];
}

function send(body: string | Buffer, more: Lines = []): Promise<AttackResponse> {
  return at.post('/hooks/gh', [...proof(body), ...more], body);
}

const bomb = Buffer.from(JSON.stringify({ text: 'x'.repeat(4 * MB) }));

describe('20 a compressed body is 415, and never opened', () => {
  test.each([
    ['gzip', gzipSync(bomb)],
    ['x-gzip', gzipSync(bomb)],
    ['deflate', deflateSync(bomb)],
    ['br', brotliCompressSync(bomb)],
    ['gzip, gzip', gzipSync(gzipSync(bomb))],
    ['gzip', Buffer.from('{"message":"hi"}')],
  ])('%s', async (encoding, body) => {
    await at.comesToNothing(async () => {
      expect((await send(body, [['content-encoding', encoding]])).status).toBe(415);
    });
  });
});

describe('23 a body is what it was declared to be', () => {
  const multipart =
    '--x\r\ncontent-disposition: form-data; name="file"; filename="../../etc/cron.d/x"\r\n\r\na\r\n--x--\r\n';
  test.each([
    ['multipart/form-data; boundary=x', multipart],
    ['multipart/form-data; boundary=x', FILES],
    ['text/plain', FILES],
    ['application/octet-stream', FILES],
    ['application/xml', FILES],
    ['application/json; charset=utf-16', FILES],
    ['application/json; charset=utf-7', FILES],
    ['application/json, multipart/form-data; boundary=x', FILES],
    ['application/json multipart/form-data', FILES],
    ['application/cloudevents-batch+json', `[${FILES}]`],
    ['application/x-www-form-urlencoded; charset=latin1', 'message=a'],
  ])('%s is 415', async (type, body) => {
    await at.comesToNothing(async () => {
      expect((await send(body, [['content-type', type]])).status).toBe(415);
    });
  });

  test.each([
    ['application/json', 'message=a'],
    ['application/json', multipart],
    ['application/json', `\uFEFF${FILES}`],
    ['application/json', `${FILES}${FILES}`],
    ['application/json', '{"message":"a","message":"b"}'],
    ['application/json', '{"__proto__":{"message":"a"}}'],
    ['application/json', '[{"message":"a"}]'],
    ['application/json', '{"message":"\\u0000"}'],
    ['application/json', `${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`],
    ['application/x-www-form-urlencoded', 'message=%zz'],
    ['application/cloudevents+json', FILES],
  ])('%s that is none is 400', async (type, body) => {
    await at.comesToNothing(async () => {
      expect((await send(body, [['content-type', type]])).status).toBe(400);
    });
  });

  test("a type that is sent twice is 400, and so are bytes that aren't text", async () => {
    const json = ['content-type', 'application/json'] as const;
    await at.comesToNothing(async () => {
      expect((await send(FILES, [json, ['content-type', 'multipart/form-data']])).status).toBe(400);
      expect((await send(FILES, [json, json])).status).toBe(400);
      expect((await send(Buffer.from([0x7b, 0xff, 0xfe, 0x7d]))).status).toBe(400);
    });
  });

  test('files that a body only mentions are not opened', async () => {
    const parsed = JSON.parse((await send(FILES)).text) as { job_id: string };
    const { payload } = (await at.api.ask(`/job/${parsed.job_id}`)).body;
    expect(payload).toMatchObject({ payload: JSON.parse(FILES) as object });
  });
});

describe('the size is what comes, not what was said', () => {
  const large = `{"text":"${'x'.repeat(MB)}"}`;
  test('a body over the limit of every webhook is 413, declared or in chunks', async () => {
    await at.comesToNothing(async () => {
      expect((await send(large)).status).toBe(413);
      const chunk = `${large.length.toString(16)}\r\n${large}\r\n`;
      expect(parseResponse(await at.raw([chunkedHead(large), chunk])).status).toBe(413);
    });
  });

  test('more than this webhook takes is 413', async () => {
    const small = await at.open('small', {
      plugin: 'echo',
      auth_mode: 'github',
      max_body_bytes: 20,
    });
    const body = '{"message":"hello there"}';
    const lines: Lines = [['x-hub-signature-256', `sha256=${mac(small, body, 'hex')}`]];
    await at.comesToNothing(async () => {
      expect((await at.post('/hooks/small', lines, body)).status).toBe(413);
    });
  });

  test('a length that is smuggled past the body is 400, and what stands behind it is not read', async () => {
    const body = '{"message":"smuggled"}';
    const [[, value] = ['', '']] = proof(body);
    const head = (lines: string): string =>
      `POST /hooks/gh HTTP/1.1\r\nhost: x\r\nx-hub-signature-256: ${value}\r\n` +
      `content-type: application/json\r\n${lines}\r\n\r\n`;
    await at.comesToNothing(async () => {
      for (const lines of [
        `content-length: ${body.length}\r\ntransfer-encoding: chunked`,
        `content-length: ${body.length}\r\ncontent-length: 0`,
        `content-length: +${body.length}`,
        'transfer-encoding: xchunked',
      ]) {
        const rawText = await at.raw([`${head(lines)}${body}`]);
        expect([lines, parseResponse(rawText).status, rawText.match(/HTTP\/1\.1 \d+/g)]).toEqual([
          lines,
          400,
          ['HTTP/1.1 400'],
        ]);
      }
    });
  });
});

function chunkedHead(body: string): string {
  const [[, value] = ['', '']] = proof(body);
  return (
    'POST /hooks/gh HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n' +
    `content-type: application/json\r\nx-hub-signature-256: ${value}\r\n\r\n`
  );
}

describe('21 a body that dribbles', () => {
  const body = '{"message":"drop by drop"}';
  const drops = Array.from(body, (drop) => `1\r\n${drop}\r\n`);

  test('is verified when all of it is there', async () => {
    const response = parseResponse(await at.raw([chunkedHead(body), ...drops, '0\r\n\r\n']));
    expect(response.status).toBe(202);
  });

  test('a different body is 401, and a broken chunk is 400', async () => {
    await at.comesToNothing(async () => {
      const more = parseResponse(
        await at.raw([chunkedHead(body), ...drops, '1\r\n \r\n', '0\r\n\r\n']),
      );
      expect(more.status).toBe(401);
      const broken = parseResponse(await at.raw([chunkedHead(body), ...drops, 'zz\r\n']));
      expect(broken.status).toBe(400);
    });
  });

  test('a body that stops before its end starts nothing', async () => {
    await at.comesToNothing(async () => {
      const socket = connect(at.port, '127.0.0.1').resume();
      const closed = once(socket, 'close');
      socket.end([chunkedHead(body), ...drops.slice(0, -1)].join(''));
      await closed;
    });
  });
});
