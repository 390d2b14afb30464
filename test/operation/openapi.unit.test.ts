/** The description of the API is sound OpenAPI 3.1, and complete. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { ownerOf } from '../../src/operation/context.ts';
import { isOffered, type HttpSurface } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { makeStubEngine, type StubEngine } from '../support/stub-engine.ts';

const schema = z.record(z.string(), z.unknown());
const content = z.record(z.string().regex(/^[a-z]+\/[a-z0-9.+-]+$/), z.strictObject({ schema }));

const operationShape = z.strictObject({
  operationId: z.string().regex(/^[A-Za-z_][\w.-]*$/),
  summary: z.string().min(1),
  tags: z.array(z.string()).min(1),
  parameters: z
    .array(
      z.strictObject({
        name: z.string(),
        in: z.enum(['path', 'query', 'header']),
        required: z.boolean(),
        description: z.string().optional(),
        style: z.literal('form').optional(),
        explode: z.boolean().optional(),
        schema: schema.optional(),
        content: content.optional(),
      }),
    )
    .optional(),
  requestBody: z.strictObject({ required: z.boolean(), content }).optional(),
  responses: z.record(
    z.string().regex(/^([1-5]\d\d|default)$/),
    z.strictObject({
      description: z.string().min(1),
      headers: z.strictObject({ Location: z.object({ schema }) }).optional(),
      content: content.optional(),
    }),
  ),
  security: z.array(z.record(z.string(), z.array(z.string()))),
  'x-ductile-scope': z.string().optional(),
});

/** The part of the specification of OpenAPI 3.1 that we use. */
const documentShape = z.strictObject({
  openapi: z.literal('3.1.0'),
  info: z.strictObject({ title: z.string(), version: z.string() }),
  externalDocs: z.strictObject({ url: z.literal('/docs/') }),
  servers: z.tuple([z.strictObject({ url: z.literal('/') })]),
  paths: z.record(
    z.string().startsWith('/'),
    z.partialRecord(z.enum(['get', 'post', 'patch', 'delete']), operationShape),
  ),
  components: z.strictObject({
    securitySchemes: z.strictObject({
      BearerAuth: z.strictObject({ type: z.literal('http'), scheme: z.literal('bearer') }),
    }),
    schemas: z.record(z.string(), schema),
  }),
});

type Document = z.output<typeof documentShape>;

let engine: StubEngine;

beforeEach(async () => {
  engine = await makeStubEngine();
});

afterEach(async () => {
  await engine.ledger.close();
});

async function describeApi(name: string, input: object = {}): Promise<Document> {
  const operation = operations.find((candidate) => candidate.name === name);
  if (operation === undefined) throw new Error(name);
  const context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' } as const;
  const output = await invoke(operation, context, input);
  return documentShape.parse(JSON.parse(JSON.stringify(output)));
}

function methodOf({ method }: HttpSurface) {
  return method.toLowerCase() as Lowercase<HttpSurface['method']>;
}

function operationsOf({ paths }: Document) {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => ({ path, method, ...described })),
  );
}

function referencesOf(document: Document): string[] {
  return [...JSON.stringify(document).matchAll(/"\$ref":"([^"]*)"/g)].map(([, to = '']) => to);
}

/** Resolves a reference within the document. */
function resolve(document: Document, reference: string): unknown {
  let found: unknown = document;
  for (const part of reference.split('/').slice(1)) {
    found = (found as Record<string, unknown> | undefined)?.[part];
  }
  return found;
}

describe('the whole document', () => {
  test('is sound: ids are unique, names in paths are parameters, references lead somewhere', async () => {
    const document = await describeApi('system.openapi');
    const described = operationsOf(document);
    const ids = described.map(({ operationId }) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { path, parameters = [], operationId } of described) {
      const named = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? '');
      const inPath = parameters.filter(({ in: place }) => place === 'path').map(({ name }) => name);
      expect([operationId, new Set(inPath)]).toEqual([operationId, new Set(named)]);
    }
    expect(referencesOf(document).length).toBeGreaterThan(0);
    for (const reference of referencesOf(document)) {
      expect([reference, resolve(document, reference) !== undefined]).toEqual([reference, true]);
    }
  });

  test('has every operation that is offered over HTTP, with its scope', async () => {
    const document = await describeApi('system.openapi');
    for (const { http, name, scope } of operations) {
      if (!isOffered(http)) continue;
      const path = http.path.replace(/\?$/, '').replaceAll(/:(\w+)/g, '{$1}');
      const method = methodOf(http);
      const described = document.paths[path]?.[method];
      expect([name, described !== undefined]).toEqual([name, true]);
      expect([name, described?.security]).toEqual([
        name,
        scope === undefined ? [] : [{ BearerAuth: [] }],
      ]);
    }
  });

  test('says how to ask for a plan where there is one, and every status of an answer', async () => {
    const { paths } = await describeApi('system.openapi');
    for (const { http, name, effect } of operations) {
      if (!isOffered(http)) continue;
      const path = http.path.replace(/\?$/, '').replaceAll(/:(\w+)/g, '{$1}');
      const described = paths[path]?.[methodOf(http)];
      const takes = described?.parameters?.some((parameter) => parameter.name === 'dry_run');
      expect([name, takes ?? false]).toEqual([name, effect !== 'read']);
    }
    const statuses = (path: string) => Object.keys(paths[path]?.post?.responses ?? {});
    expect(statuses('/tokens')).toEqual(expect.arrayContaining(['200', '201', '202', '409']));
    expect(statuses('/webhooks')).not.toContain('202');
    expect(statuses('/plugin/{plugin}/{command}')).toEqual(expect.arrayContaining(['200', '202']));
    for (const path of ['/system/reload', '/plugins/{plugin}/init']) {
      const json = JSON.stringify(paths[path]?.post?.responses);
      expect(json).toMatch(/DIRECTIVE_FAILED/);
      expect(json).toMatch(/BUSY/);
    }
  });

  test('says of a command what goes for every one: how to wait for its end, and what that is', async () => {
    const { paths, components } = await describeApi('system.openapi');
    const poll = paths['/plugin/echo/poll']?.post;
    const general = paths['/plugin/{plugin}/{command}']?.post;
    const names = (of: typeof poll) => of?.parameters?.map(({ name }) => name) ?? [];
    expect(names(poll)).toEqual(expect.arrayContaining(['wait', 'delay', 'dedupe_key', 'dry_run']));
    const inPath = ['plugin', 'command'];
    expect(names(poll)).toEqual(names(general).filter((name) => !inPath.includes(name)));
    expect(Object.keys(poll?.responses ?? {})).toEqual(
      expect.arrayContaining(Object.keys(general?.responses ?? {})),
    );
    const job = { $ref: '#/components/schemas/plugin_run__answer' };
    expect(poll?.responses['200']?.content?.['application/json']?.schema['anyOf']).toContainEqual(
      job,
    );
    expect(poll?.responses['202']?.content?.['application/json']?.schema).toEqual(job);
    expect(components.schemas['plugin_run__answer']).toMatchObject({
      required: expect.arrayContaining(['job_id', 'status']),
      properties: { result: {}, timeout_exceeded: { type: 'boolean' } },
    });
  });

  test('has a path with and without what may be left out at its end', async () => {
    const { paths } = await describeApi('system.openapi');
    const places = ['/system/breaker', '/system/breaker/{plugin}'].map((path) => {
      return paths[path]?.get?.parameters?.find(({ name }) => name === 'plugin')?.in;
    });
    expect(places).toEqual(['query', 'path']);
    expect(paths['/plugin/{plugin}']).toMatchObject({ get: {}, post: {} });
  });

  test('knows what any request may be answered', async () => {
    const document = await describeApi('system.openapi');
    for (const { operationId, responses } of operationsOf(document)) {
      expect([operationId, responses['default']?.content]).toMatchObject([
        operationId,
        { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
      ]);
    }
    expect(document.components.schemas['Problem']).toMatchObject({
      properties: { details: { type: 'object' } },
    });
  });

  test('has every command under its own name', async () => {
    const ids = operationsOf(await describeApi('system.openapi')).map(
      ({ operationId }) => operationId,
    );
    expect(ids).toEqual(expect.arrayContaining(['echo__poll', 'echo__handle', 'mail__handle']));
  });
});

describe('the document of a plugin', () => {
  test('has its commands, and a body only where the command says what it takes', async () => {
    const plugin = engine.catalog.plugins.get('echo');
    const handle = plugin?.manifest.commands['handle'];
    if (handle === undefined) throw new Error('no command');
    const inputSchema = { type: 'object', properties: { message: { type: 'string' } } };
    Object.assign(handle, { inputSchema, description: 'Says it again' });
    const document = await describeApi('plugin.openapi', { plugin: 'echo' });
    expect(Object.keys(document.paths)).toEqual(['/plugin/echo/poll', '/plugin/echo/handle']);
    const poll = document.paths['/plugin/echo/poll']?.post;
    expect(poll).toMatchObject({
      operationId: 'echo__poll',
      summary: 'echo: poll',
      tags: ['echo'],
    });
    expect(poll).not.toHaveProperty('requestBody');
    expect(document.components.schemas['echo__handle']).toEqual(inputSchema);
    expect(document.paths['/plugin/echo/handle']?.post).toMatchObject({
      summary: 'Says it again',
      requestBody: {
        required: false,
        content: {
          'application/json': {
            schema: { properties: { payload: { $ref: '#/components/schemas/echo__handle' } } },
          },
        },
      },
      responses: { '202': { description: 'Job queued' }, '400': {}, '403': {} },
    });
  });

  test('points from within a schema to the place of that schema', async () => {
    const handle = engine.catalog.plugins.get('echo')?.manifest.commands['handle'];
    if (handle === undefined) throw new Error('no command');
    const inputSchema = {
      $defs: { name: { type: 'string' }, tree: { items: { $ref: '#' } } },
      properties: {
        default: { $ref: '#/$defs/name' },
        $ref: { type: 'string' },
        all: { anyOf: [{ $ref: '#/$defs/tree' }], default: { $ref: '#/$defs/name' } },
        own: { $id: 'urn:own', $ref: '#/$defs/x', $defs: { x: {} } },
      },
    };
    Object.assign(handle, { inputSchema });
    const place = '#/components/schemas/echo__handle';
    const document = await describeApi('plugin.openapi', { plugin: 'echo' });
    expect(document.components.schemas['echo__handle']).toEqual({
      $defs: { name: { type: 'string' }, tree: { items: { $ref: place } } },
      properties: {
        default: { $ref: `${place}/$defs/name` },
        $ref: { type: 'string' },
        all: { anyOf: [{ $ref: `${place}/$defs/tree` }], default: { $ref: '#/$defs/name' } },
        own: inputSchema.properties.own,
      },
    });
  });

  test('is not found for an unknown plugin', async () => {
    await expect(describeApi('plugin.openapi', { plugin: 'eco' })).rejects.toMatchObject({
      code: 'PLUGIN_NOT_FOUND',
      hint: 'Did you mean echo?',
    });
  });
});
