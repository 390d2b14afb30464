import { compact } from '../base/json.ts';
import * as z from 'zod';
import { catalogue } from '../base/error-catalogue.ts';
import type { ErrorCode } from '../base/errors.ts';
import type { Catalog, Plugin } from '../plugin/catalog.ts';
import type { ManifestCommand } from '../plugin/manifest.ts';
import { CLOUDEVENT_BATCH_TYPE, CLOUDEVENT_TYPE } from '../signal/cloudevent.ts';
import { isOffered, listStatuses, type HttpSurface, type Operation } from './define.ts';
import { moveRefs } from './schema.ts';
import { describeNeed } from '../access/scopes.ts';
import { returnsRows } from './request.ts';

type Document = { openapi: string } & Record<string, unknown>;
type Paths = Record<string, Record<string, unknown>>;

const cached = new WeakMap<Catalog, Document>();

/**
 * Describes all HTTP endpoints, and every command of every plugin under its own path. `runPlugin` is the
 * operation behind the paths of commands.
 */
export function describeAll(
  catalog: Catalog,
  operations: readonly Operation[],
  runPlugin: Operation,
): Document {
  let document = cached.get(catalog);
  if (document === undefined) {
    const paths: Paths = {};
    for (const operation of operations) addOperation(paths, operation);
    const plugins = [...catalog.plugins.values()];
    for (const plugin of plugins) Object.assign(paths, commandPaths(plugin, runPlugin));
    document = toDocument(paths, plugins, runPlugin, operations.flatMap(resultSchemas));
    cached.set(catalog, document);
  }
  return document;
}

export function describePlugin(plugin: Plugin, runPlugin: Operation): Document {
  return toDocument(commandPaths(plugin, runPlugin), [plugin], runPlugin);
}

function toDocument(
  paths: Paths,
  plugins: readonly Plugin[],
  runPlugin: Operation,
  results: readonly (readonly [string, unknown])[] = [],
): Document {
  return {
    openapi: '3.1.0',
    info: { title: 'Ductile Gateway', version: '1.0' },
    externalDocs: { url: '/docs/' },
    servers: [{ url: '/' }],
    paths,
    components: {
      securitySchemes: { BearerAuth: { type: 'http', scheme: 'bearer' } },
      schemas: {
        Problem: problemSchema,
        [resultId(runPlugin.name)]: schemaOf(runPlugin),
        ...Object.fromEntries([...results, ...plugins.flatMap(payloadSchemas)]),
      },
    },
  };
}

const bearer = [{ BearerAuth: [] }];

const problemSchema = {
  type: 'object',
  required: ['error', 'code', 'status', 'request_id'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    error: { type: 'string', description: 'the same text as `detail`' },
    code: { type: 'string', enum: Object.keys(catalogue) },
    place: { type: 'string', description: 'field, file or id that the error is about' },
    hint: { type: 'string' },
    retryable: { type: 'boolean' },
    details: { type: 'object', description: 'further data for programs' },
    request_id: { type: 'string' },
    docs: { type: 'string', description: 'path of the page about this code' },
  },
};

function commandPaths({ name, manifest }: Plugin, runPlugin: Operation): Paths {
  const commands = Object.values(manifest.commands);
  return Object.fromEntries(
    commands.map((command) => [
      `/plugin/${name}/${command.name}`,
      { post: describeCommand(name, command, runPlugin) },
    ]),
  );
}

function describeCommand(
  plugin: string,
  command: ManifestCommand,
  runPlugin: Operation,
): Record<string, unknown> {
  const { name, type, description, inputSchema } = command;
  const result = { $ref: `#/components/schemas/${resultId(runPlugin.name)}` };
  return {
    operationId: idOf(plugin, name),
    summary: description ?? `${plugin}: ${name}`,
    tags: [plugin],
    parameters: commandParameters(runPlugin),
    ...(inputSchema === undefined ? {} : { requestBody: payloadBody(idOf(plugin, name)) }),
    responses: {
      ...errorResponses(runPlugin),
      '200': {
        description: 'Result of the job if the request waited for it, or the plan of a dry run',
        content: jsonContent({ anyOf: [result, planSchema] }),
      },
      '202': {
        description: 'Job queued',
        headers: locationHeader,
        content: jsonContent(result),
      },
      '400': problem('Bad request'),
      '401': problem('No valid token'),
      '403': problem('Insufficient scope'),
      '404': problem('Unknown plugin or command'),
      '413': problem('Body too large'),
      '422': problem('Idempotency key already used for another request'),
    },
    security: bearer,
    'x-ductile-scope': describeNeed({ plugin, command: name, type }),
  };
}

/** Describes the parameters that all commands have: how the job starts, and how long to wait for it. */
function commandParameters({ input }: Operation): Record<string, unknown>[] {
  const schema = toSchema(input, 'input');
  const named = new Set(['plugin', 'command', 'payload']);
  const own = Object.entries(schema.properties ?? {}).filter(([field]) => !named.has(field));
  const parameters = own.map(([field, property]) =>
    toParameter(field, property, new Set(), schema),
  );
  return [...parameters, ...writingParameters];
}

function idOf(plugin: string, command: string): string {
  return `${plugin}__${command}`;
}

/** Describes a body with the payload under its own key. */
function payloadBody(id: string): Record<string, unknown> {
  const payload = { $ref: `#/components/schemas/${id}` };
  return { required: false, content: jsonContent({ type: 'object', properties: { payload } }) };
}

/** Lists the schemas of payloads, each under its own name. */
function payloadSchemas({ name, manifest }: Plugin): [string, unknown][] {
  return Object.values(manifest.commands).flatMap(({ name: command, inputSchema }) => {
    if (inputSchema === undefined) return [];
    const id = idOf(name, command);
    return [[id, moveRefs(inputSchema, `#/components/schemas/${id}`)]];
  });
}

/** Parameters of every operation that changes something. */
const writingParameters = [
  {
    name: 'dry_run',
    in: 'query',
    required: false,
    description: 'return the plan and change nothing (default: false)',
    schema: { type: 'boolean', default: false },
  },
  {
    name: 'apply',
    in: 'query',
    required: false,
    description: 'make the change (the default); cannot be combined with dry_run',
    schema: { const: true },
  },
  { name: 'Idempotency-Key', in: 'header', required: false, schema: { type: 'string' } },
];

const fieldsParameter = {
  name: 'fields',
  in: 'query',
  required: false,
  description: 'only these fields of the result, or of the rows of a list, separated by commas',
  schema: { type: 'string' },
};

const planSchema = {
  type: 'object',
  required: ['dry_run', 'plan'],
  properties: {
    dry_run: { const: true },
    plan: { type: 'array', items: { type: 'string' } },
  },
};

function addOperation(paths: Paths, operation: Operation): void {
  const { http } = operation;
  if (!isOffered(http)) return;
  const id = operation.name.replace('.', '_');
  const [path, ...shorter] = expandOptional(http.path);
  const also = [...shorter, ...(http.also ?? [])].map(
    (other) => [other, `${id}_${other.split('/')[1] ?? ''}`] as const,
  );
  for (const [one, operationId] of [[path, id] as const, ...also]) {
    const methods = (paths[one.replaceAll(/:(\w+)/g, '{$1}')] ??= {});
    methods[http.method.toLowerCase()] = {
      operationId,
      ...describeOperation(operation, http, one),
    };
  }
}

/** Lists the paths with and without an optional end, because OpenAPI has no optional path parameters. */
function expandOptional(path: string): [string, ...string[]] {
  if (!path.endsWith('?')) return [path];
  const whole = path.slice(0, -1);
  return [whole, whole.slice(0, whole.lastIndexOf('/'))];
}

interface Schema {
  readonly properties?: Readonly<Record<string, Record<string, unknown>>>;
  readonly required?: readonly string[];
}

function describeOperation(
  operation: Operation,
  http: HttpSurface,
  path: string,
): Record<string, unknown> {
  const { name, summary, scope, effect, input } = operation;
  const [noun = ''] = name.split('.');
  const inPath = new Set([...path.matchAll(/:(\w+)/g)].map((match) => match[1] ?? ''));
  const schema = toSchema(input, 'input');
  const fields = Object.entries(schema.properties ?? {});
  const isInBody = (field: string): boolean =>
    !inPath.has(field) && http.method !== 'GET' && (http.body ?? field) === field;
  const parameters = fields
    .filter(([field]) => !isInBody(field))
    .map(([field, property]) => toParameter(field, property, inPath, schema));
  if (effect !== 'read') parameters.push(...writingParameters);
  if (returnsRows(operation)) parameters.push(fieldsParameter);
  const body = fields.filter(([field]) => isInBody(field));
  return {
    summary,
    tags: [noun],
    parameters,
    ...(body.length === 0 ? {} : { requestBody: toBody(body, schema, http) }),
    responses: { ...errorResponses(operation), ...successResponses(operation, http) },
    security: scope === undefined ? [] : bearer,
    ...(scope === undefined
      ? {}
      : {
          'x-ductile-scope':
            typeof scope === 'function'
              ? `${noun}:${effect === 'read' ? 'ro' : 'rw'}`
              : describeNeed(scope),
        }),
  };
}

/** Returns the schema of a recursive result under its own name, so that it can refer to itself. */
function resultSchemas(operation: Operation): [string, unknown][] {
  const schema = schemaOf(operation);
  if (!('$defs' in schema)) return [];
  const id = resultId(operation.name);
  return [[id, moveRefs(schema, `#/components/schemas/${id}`)]];
}

function resultSchema(operation: Operation): Record<string, unknown> {
  const { name } = operation;
  const schema = schemaOf(operation);
  return '$defs' in schema ? { $ref: `#/components/schemas/${resultId(name)}` } : schema;
}

function schemaOf({ output }: Operation): Record<string, unknown> {
  const { $schema: _, ...schema } = toSchema(output, 'output') as Record<string, unknown>;
  return schema;
}

function resultId(name: string): string {
  return `${name.replace('.', '_')}__answer`;
}

const SUCCESSES: Readonly<Record<number, string>> = {
  200: 'Done',
  201: 'Created',
  202: 'Accepted',
};

function successResponses(operation: Operation, http: HttpSurface): Record<string, unknown> {
  const { plan } = operation;
  const schema = resultSchema(operation);
  const statuses = listStatuses(http);
  const done = statuses.map((status) => [
    status,
    {
      description: SUCCESSES[status] ?? 'Unhealthy',
      ...(http.location !== undefined && status !== 200 ? { headers: locationHeader } : {}),
      content: okContent(http, schema),
    },
  ]);
  if (plan === undefined) return Object.fromEntries(done) as Record<string, unknown>;
  const either = statuses.includes(200) ? { anyOf: [schema, planSchema] } : planSchema;
  const description = statuses.includes(200) ? 'Done, or the plan of a dry run' : 'Dry-run plan';
  return { ...Object.fromEntries(done), 200: { description, content: jsonContent(either) } };
}

const locationHeader = {
  Location: { description: 'URL of the created object', schema: { type: 'string' } },
};

function okContent(http: HttpSurface, schema: Record<string, unknown>): Record<string, unknown> {
  const events = { 'text/event-stream': { schema: { type: 'string' } } };
  return {
    ...(http.isStream === true ? events : {}),
    ...jsonContent(schema),
    ...(http.returnsCloudEvent === true ? anyObject([CLOUDEVENT_TYPE]) : {}),
    ...(http.textForm === undefined ? {} : { 'text/plain': { schema: { type: 'string' } } }),
  };
}

function toParameter(
  field: string,
  property: Record<string, unknown>,
  inPath: ReadonlySet<string>,
  { required = [] }: Schema,
): Record<string, unknown> {
  const { description, ...schema } = property;
  const isList = schema['type'] === 'array';
  return {
    name: field,
    in: inPath.has(field) ? 'path' : 'query',
    required: inPath.has(field) || required.includes(field),
    ...compact({ description }),
    ...(isList ? { style: 'form', explode: false } : {}),
    // An object in a query is JSON text, not the form of a query that OpenAPI assumes.
    ...(schema['type'] === 'object' ? { content: jsonContent(schema) } : { schema }),
  };
}

function toBody(
  fields: readonly (readonly [string, Record<string, unknown>])[],
  { required = [] }: Schema,
  { acceptsCloudEvents }: HttpSurface,
): Record<string, unknown> {
  const needed = fields.map(([field]) => field).filter((field) => required.includes(field));
  const schema = {
    type: 'object',
    properties: Object.fromEntries(fields),
    ...(needed.length === 0 ? {} : { required: needed }),
  };
  const events = {
    ...(acceptsCloudEvents === 'one' ? anyObject([CLOUDEVENT_TYPE]) : {}),
    ...(acceptsCloudEvents === undefined ? {} : batchContent),
  };
  return { required: needed.length > 0, content: { ...jsonContent(schema), ...events } };
}

const batchContent = {
  [CLOUDEVENT_BATCH_TYPE]: { schema: { type: 'array', items: { type: 'object' } } },
};

/** Describes media types whose schema is defined elsewhere. */
function anyObject(types: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(types.map((type) => [type, { schema: { type: 'object' } }]));
}

/** Lists the errors of an operation by status; `default` stands for errors of any request. */
function errorResponses({ errors, scope }: Operation): Record<string, unknown> {
  const codes: ErrorCode[] = [
    ...errors,
    ...(scope === undefined ? [] : (['UNAUTHORIZED', 'FORBIDDEN', 'TRIES_SPENT'] as const)),
  ];
  const byStatus = new Map<number, string[]>();
  for (const code of codes) {
    const { status } = catalogue[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const responses = [...byStatus].map(
    ([status, names]) => [status, problem(names.join(', '))] as const,
  );
  return { ...Object.fromEntries(responses), default: problem('Error of any request') };
}

function problem(description: string): Record<string, unknown> {
  const schema = { $ref: '#/components/schemas/Problem' };
  return { description, content: { 'application/problem+json': { schema } } };
}

function jsonContent(schema: unknown): Record<string, unknown> {
  return { 'application/json': { schema } };
}

function toSchema(schema: z.ZodObject, io: 'input' | 'output'): Schema {
  return z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Schema;
}
