/**
 * Everything that programs of users depend on: routes, tools, result shapes, error codes, configuration
 * keys, tables, metrics and the plugin protocol. Sentences are left out, so rewording is free. If a
 * change of a surface is intended, write the snapshots again with `npm test -- test/surface -u`.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import * as z from 'zod';
import { catalogue } from '../../src/base/error-catalogue.ts';
import { makeJsonSchema } from '../../src/config/json-schema.ts';
import { migrations } from '../../src/ledger/migrate.ts';
import { makePostgresDialect } from '../../src/ledger/postgres/store.ts';
import { sqliteDialect } from '../../src/ledger/sqlite/session.ts';
import { operationTools } from '../../src/mcp/tools.ts';
import { operations } from '../../src/operation/all.ts';
import { startApi, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';
import { writeSurface } from './write-surface.ts';

let api: TestApi;

const program = python('ok(json.dumps(request))');

beforeAll(async () => {
  api = await startApi({
    plugins: { mirror: { enabled: true, config: { key: 'value' } } },
    pipelines: [{ name: 'flow', steps: [{ id: 'first', uses: 'mirror.handle' }] }],
    webhooks: { listen: '127.0.0.1:0', endpoints: [] },
    prepare: async (directory) => {
      const commands = 'commands: {poll: {}, handle: {}, health: {}, init: {}}';
      await writePlugin(join(directory, 'plugins', 'mirror'), {
        name: 'mirror',
        program,
        commands,
      });
    },
  });
});

afterAll(async () => {
  await api.close();
});

test('the routes of the API and their schemas are unchanged', async () => {
  const { body } = await api.ask('/openapi.json');
  await expect(writeSurface(body)).toMatchFileSnapshot('snapshots/openapi.txt');
});

test('the MCP tools and their schemas are unchanged', async () => {
  const tools = [...operationTools().values()].map(({ description }) => description);
  await expect(writeSurface(tools)).toMatchFileSnapshot('snapshots/mcp-tools.txt');
});

test('the commands, their options and the shapes of their JSON are unchanged', async () => {
  const shapes = operations.map(
    ({ name, effect, input, output, errors, cli, http, needs, scope }) => [
      name,
      {
        effect,
        errors,
        cli,
        http,
        needs,
        scope,
        input: z.toJSONSchema(input, { io: 'input', unrepresentable: 'any' }),
        output: z.toJSONSchema(output, { io: 'output', unrepresentable: 'any' }),
      },
    ],
  );
  await expect(writeSurface(Object.fromEntries(shapes))).toMatchFileSnapshot(
    'snapshots/operations.txt',
  );
});

test('the error codes, their HTTP status and their exit code are unchanged', async () => {
  await expect(writeSurface(catalogue)).toMatchFileSnapshot('snapshots/errors.txt');
});

test('the keys of the configuration are unchanged', async () => {
  await expect(writeSurface(makeJsonSchema())).toMatchFileSnapshot('snapshots/config.txt');
});

test.each([
  ['sqlite', sqliteDialect],
  ['postgres', makePostgresDialect('ductile')],
] as const)('the tables are unchanged on %s', async (kind, dialect) => {
  const made = migrations.flatMap(({ version, name, statements }) => [
    `-- ${version} ${name}`,
    ...statements(dialect),
  ]);
  await expect(`${made.join('\n')}\n`).toMatchFileSnapshot(`snapshots/tables-${kind}.sql`);
});

test('the names, types and labels of the metrics are unchanged', async () => {
  await api.ask('/plugin/mirror/poll', { body: '{}', headers: { prefer: 'wait=10' } });
  const { text } = await eventually('a job is counted', async () => {
    const response = await api.ask('/metrics');
    return response.text.includes('plugin="mirror"') ? response : undefined;
  });
  const names = text
    .split('\n')
    .filter((line) => !line.startsWith('# HELP'))
    .map((line) => line.replace(/"[^"]*"/g, '""').replace(/(?<!^#.*) \S+$/, ''));
  await expect(`${[...new Set(names)].toSorted().join('\n')}\n`).toMatchFileSnapshot(
    'snapshots/metrics.txt',
  );
});

test('the request that a plugin reads is unchanged, by command and as a step', async () => {
  const input: Record<string, unknown> = {};
  for (const path of ['/plugin/mirror/poll', '/plugin/mirror/handle', '/pipeline/flow']) {
    const { body } = await api.ask(`${path}?wait=20s`, { body: '{"payload":{"n":1}}' });
    const { result } = body['result'] as { readonly result: string };
    input[path] = shapeOf(JSON.parse(result));
  }
  await expect(writeSurface(input)).toMatchFileSnapshot('snapshots/plugin-request.txt');
});

/** Replaces values by their type, because ids and times differ. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value !== 'object' || value === null) return value === null ? null : typeof value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shapeOf(one)]));
}
