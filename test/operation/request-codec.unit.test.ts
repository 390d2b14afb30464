import { describe, expect, test } from 'vitest';
import { isOffered, type Operation } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { toRequest, fromRequest } from '../../src/operation/request.ts';
import { describeInput } from '../../src/operation/schema.ts';

function lookup(name: string): Operation {
  const operation = operations.find((candidate) => candidate.name === name);
  if (operation === undefined) throw new Error(name);
  return operation;
}

/** There and back, as the routes of the server take a request apart. */
function travel(name: string, input: Record<string, unknown>): Record<string, unknown> {
  const operation = lookup(name);
  if (!isOffered(operation.http)) throw new Error(`${name} has no route`);
  const { path, body } = toRequest(operation.http, input);
  const url = new URL(path, 'http://localhost');
  const names = operation.http.path.split('/').slice(1);
  const params: Record<string, string> = {};
  for (const [at, part] of url.pathname.split('/').slice(1).entries()) {
    const param = /^:(\w+)/.exec(names[at] ?? '')?.[1];
    if (param !== undefined) params[param] = decodeURIComponent(part);
  }
  const query: Record<string, string[]> = {};
  for (const key of url.searchParams.keys()) query[key] = url.searchParams.getAll(key);
  const parsed: unknown = body === undefined ? undefined : JSON.parse(body);
  return fromRequest(describeInput(operation), operation.http, { params, query, body: parsed });
}

describe('input travels unchanged', () => {
  test.each<[string, Record<string, unknown>]>([
    ['job.list', {}],
    ['job.list', { plugin: 'mail', status: ['failed', 'dead'], limit: 5, cursor: 'ai41' }],
    ['job.list', { plugin: '123' }],
    ['job.inspect', { id: '0199/../x?y=1' }],
    ['job.cancel', { id: '0199', dry_run: true }],
    ['system.backup', { to: '/tmp/ä b.db' }],
    ['plugin.run', { plugin: 'mail', payload: {} }],
    ['plugin.run', { plugin: 'mail', command: 'poll', payload: { payload: 1 }, wait: true }],
    ['plugin.run', { plugin: 'mail', payload: { payload: {} }, wait: false }],
    [
      'plugin.run',
      {
        plugin: 'mail',
        payload: { a: ['x&y', null] },
        context: { who: 'ann' },
        dedupe_key: '12',
        wait: '30s',
        dry_run: true,
      },
    ],
  ])('%s %j', (name, input) => {
    expect(travel(name, input)).toEqual(input);
  });
});

describe('a body that is the payload', () => {
  const operation = lookup('plugin.run');
  const read = (body: unknown): unknown => {
    if (!isOffered(operation.http)) throw new Error('no route');
    return fromRequest(describeInput(operation), operation.http, { params: {}, query: {}, body });
  };

  test.each([
    [undefined, {}],
    [{}, { payload: {} }],
    [{ payload: { a: 1 } }, { payload: { a: 1 } }],
    [{ a: 1 }, { payload: { a: 1 } }],
    [{ payload: 1, a: 1 }, { payload: { payload: 1, a: 1 } }],
  ])('%j gives %j', (body, input) => {
    expect(read(body)).toEqual(input);
  });

  test.each([[[1]], ['x'], [null], [7]])('%j is refused', (body) => {
    expect(() => read(body)).toThrow('must be a JSON object');
  });
});
