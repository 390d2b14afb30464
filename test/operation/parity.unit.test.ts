/** Every operation is on every surface, or says why not. */
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { catalogue } from '../../src/base/error-catalogue.ts';
import { operationToolName, operationTools, ownFields, toolPlace } from '../../src/mcp/tools.ts';
import { isOffered } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { describeInput } from '../../src/operation/schema.ts';
import { reservedIds } from '../../src/webhook/webhook.directives.ts';

test('names are unique, and so are routes', () => {
  const names = operations.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  const routes = operations.flatMap(({ http }) =>
    isOffered(http)
      ? [http.path, ...(http.also ?? [])].map((path) => `${http.method} ${path}`)
      : [],
  );
  expect(new Set(routes).size).toBe(routes.length);
});

test('no list has the address of something that people name, unless nothing may have that name', () => {
  const routes = operations.flatMap(({ http }) => (isOffered(http) ? [http] : []));
  const hidden = routes.flatMap(({ method, path }) =>
    routes
      .filter((other) => other.method === method && other.path !== path)
      .filter((other) => {
        const theirs = other.path.split('/');
        const parts = path.split('/');
        const isTheirs = (part: string, at: number): boolean =>
          part === theirs[at] || theirs[at]?.startsWith(':') === true;
        return parts.length === theirs.length && parts.every(isTheirs);
      })
      .map(() => path),
  );
  expect(hidden.toSorted()).toEqual(reservedIds.map((id) => `/webhooks/${id}`));
});

test('commands and their short spellings are unique', () => {
  const nouns = new Set(operations.map(({ name }) => name.split('.')[0]));
  const aliases = operations.flatMap(({ cli }) => (isOffered(cli) ? [cli.alias?.name] : []));
  const named = aliases.filter((name) => name !== undefined);
  expect(named.length).toBeGreaterThan(0);
  expect(new Set(named).size).toBe(named.length);
  // A word after `run` that isn't an action of the noun is the name of a plugin.
  const both = operations.filter(({ cli }) => isOffered(cli) && nouns.has(cli.alias?.name ?? ''));
  expect(both.map(({ name }) => name)).toEqual(['plugin.run']);
});

describe.each(operations.map((operation) => [operation.name, operation] as const))(
  '%s',
  (name, operation) => {
    const { input, output, errors, http, cli, effect, summary, scope, plan } = operation;

    test('is a noun and an action, with a sentence', () => {
      // Two words only if one word would be ambiguous.
      expect(name).toMatch(/^[a-z]+\.[a-z]+(-[a-z]+)?$/);
      expect(summary).toMatch(/^[A-Z].*\.$/);
    });

    test('is offered everywhere or says why not', () => {
      for (const surface of [http, cli]) {
        if ('absent' in surface) expect(surface.absent).toMatch(/\w+ \w+/);
      }
      expect(isOffered(http) || isOffered(cli)).toBe(true);
    });

    test('is a tool of agents or says why not', () => {
      const place = toolPlace(operation);
      const tool = operationTools().get(operationToolName(name));
      if (typeof place !== 'string') {
        expect([tool, place.absent]).toEqual([undefined, expect.stringMatching(/\w+ \w+/)]);
        return;
      }
      // An operation without a route works on files, and the command line has it, too.
      expect(place === 'server' ? isOffered(http) : isOffered(cli)).toBe(true);
      expect(tool?.description.name).toMatch(/^[a-z_]{1,64}$/);
      expect(tool?.description.annotations.readOnlyHint).toBe(effect === 'read');
      expect(tool?.description.annotations.destructiveHint ?? false).toBe(effect === 'destroy');
      const own = Object.keys(ownFields(operation));
      expect(own.filter((field) => field in input.shape)).toEqual([]);
      expect(own.includes('dry_run')).toBe(effect !== 'read');
      // A secret would stay in the context of a model.
      const schema = JSON.stringify(tool?.description.inputSchema);
      for (const secret of operation.secrets ?? []) expect(schema).not.toContain(`"${secret}"`);
    });

    test('has schemas that are JSON Schema, each field of the input explained', () => {
      expect(z.toJSONSchema(input, { io: 'input' })).toMatchObject({ type: 'object' });
      expect(z.toJSONSchema(output)).toMatchObject({ type: 'object' });
      for (const [field, { description, types }] of describeInput(operation)) {
        expect([field, types.length > 0, description !== '']).toEqual([field, true, true]);
      }
    });

    test('names only errors of the catalogue', () => {
      for (const code of errors) expect(catalogue).toHaveProperty(code);
      if (Object.keys(input.shape).length > 0) expect(errors).toContain('INPUT_INVALID');
    });

    test('says what it would do if it changes something, and needs a scope', () => {
      expect(plan !== undefined).toBe(effect !== 'read');
      if (effect !== 'read' && typeof scope !== 'function') expect(scope).toMatch(/:rw$|^\*$/);
      // A pipeline is tested with answers that only a body can carry.
      if (isOffered(http) && name !== 'pipeline.test') {
        expect(http.method === 'GET').toBe(effect === 'read');
      }
    });

    test('uses only fields that its input has', () => {
      const fields = new Set(describeInput(operation).keys());
      const used = [
        ...(isOffered(http) ? [...http.path.matchAll(/:(\w+)/g)].map((match) => match[1]) : []),
        ...(isOffered(http) && http.body !== undefined ? [http.body] : []),
        ...(isOffered(cli) ? (cli.positionals ?? []) : []),
        ...(isOffered(cli) ? (cli.alias?.positionals ?? []) : []),
        ...(isOffered(cli) ? (cli.paths ?? []) : []),
        ...(isOffered(cli) ? Object.keys({ ...cli.flags, ...cli.defaults }) : []),
      ];
      expect(used.filter((field) => field === undefined || !fields.has(field))).toEqual([]);
    });

    test('shows columns that its output has, and examples', () => {
      if (!isOffered(cli)) return;
      expect(cli.examples.length).toBeGreaterThan(0);
      for (const example of cli.examples) expect(example).toMatch(/^ductile /);
      if (cli.table === undefined) return;
      const rows = output.shape[cli.table.rows];
      if (!(rows instanceof z.ZodArray) || !(rows.element instanceof z.ZodObject)) {
        throw new TypeError(`${cli.table.rows} is not a list of objects`);
      }
      const { shape } = rows.element;
      const unknown = cli.table.columns.filter(([, field]) => !(field in shape));
      expect(unknown).toEqual([]);
    });
  },
);
