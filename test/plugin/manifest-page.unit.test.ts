/** The page about the manifest has each key that the program accepts, with its default. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { pluginManifestSchema } from '../../src/plugin/manifest.ts';

const page = resolve(import.meta.dirname, '../../docs/plugins/manifest.md');

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly default?: unknown;
}

/** Lists the keys below a path with what the column `default` says. */
function listKeys(schema: Schema, path: string, column: string): (readonly [string, string])[] {
  const { properties, additionalProperties: values, items } = schema;
  if (properties !== undefined) {
    return Object.entries(properties).flatMap(([key, inner]) =>
      listKeys(inner, path === '' ? key : `${path}.${key}`, toColumn(schema, key, inner)),
    );
  }
  const own = [[path, column] as const];
  if (items?.properties !== undefined) return [...own, ...listKeys(items, `${path}[]`, '')];
  if (typeof values === 'object' && values.properties !== undefined) {
    return [...own, ...listKeys(values, `${path}.<name>`, '')];
  }
  return own;
}

function toColumn({ required = [] }: Schema, key: string, { default: value }: Schema): string {
  if (value !== undefined) {
    return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
  }
  return required.includes(key) ? 'required' : '';
}

test('docs/plugins/manifest.md lists every key with its default', () => {
  const schema = z.toJSONSchema(pluginManifestSchema, { io: 'output', unrepresentable: 'any' });
  const [, table = ''] =
    /\| key \| default \| meaning \|\n([^]*?)\n\n/.exec(readFileSync(page, 'utf8')) ?? [];
  const rows = [...table.matchAll(/^\| `([^`]+)` \| (.*?) ?\| .+\|$/gm)];
  const written = rows.map(([, key = '', column = '']) => [key, column] as const);
  expect(Object.fromEntries(written)).toEqual(
    Object.fromEntries(listKeys(schema as Schema, '', '')),
  );
});
