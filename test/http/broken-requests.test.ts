/**
 * An error on a connection is returned after the responses to earlier requests, and never within
 * one.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';

let api: TestApi;

beforeAll(async () => {
  api = await startApi();
});

afterAll(async () => {
  await api.close();
});

function lines(...parts: readonly string[]): string {
  return `${[...parts, 'host: localhost', `authorization: Bearer ${OWNER}`].join('\r\n')}\r\n\r\n`;
}

function statuses(said: string): string[] {
  return [...said.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status = '']) => status);
}

const run = `${lines('POST /plugin/echo/poll HTTP/1.1', 'content-length: 2')}{}`;

test('a job that was accepted is not reported as a bad request because of what follows it', async () => {
  const text = await api.raw(`${run}\0\0garbage\r\n\r\n`);
  expect(statuses(text)).toEqual(['202', '400']);
});

test('a job that was accepted is not reported as a bad request because of a broken body behind it', async () => {
  const broken = `${lines('POST /plugin/echo/poll HTTP/1.1', 'transfer-encoding: chunked')}zz\r\n`;
  const text = await api.raw(`${run}${run}${broken}`);
  expect(statuses(text)).toEqual(['202', '202', '400']);
});

test('a stream of events is cut, and not mixed with another answer', async () => {
  const socket = connect(api.port, '127.0.0.1').setEncoding('utf8');
  socket.on('error', () => undefined);
  let text = '';
  socket.on('data', (chunk: string) => {
    // The response has begun.
    if (text === '') socket.write('\0\0');
    text += chunk;
  });
  const closed = once(socket, 'close');
  socket.write(lines('GET /events HTTP/1.1'));
  await closed;
  expect(statuses(text)).toEqual(['200']);
});

test('a request that was refused before its body came gets one response', async () => {
  const head = 'POST /plugin/echo/poll HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked';
  const text = await api.raw(`${head}\r\n\r\n2\r\n{}\r\nzz\r\n`);
  expect(statuses(text)).toHaveLength(1);
});

test('HTTP/1.0 has no chunks', async () => {
  const head = lines('POST /plugin/echo/poll HTTP/1.0', 'transfer-encoding: chunked');
  expect(statuses(await api.raw(`${head}2\r\n{}\r\n0\r\n\r\n`))).toEqual(['400']);
});
