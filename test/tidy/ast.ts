import { parseAst } from 'vitest/node';
import type { TextFile } from './tree.ts';

export type Node = Readonly<Record<string, unknown>>;

const parsed = new WeakMap<TextFile, unknown>();

export function parseSource(file: TextFile): unknown {
  const known = parsed.get(file);
  if (known !== undefined) return known;
  const lang = file.path.endsWith('x') ? 'tsx' : 'ts';
  const tree: unknown = parseAst(file.text, { lang });
  parsed.set(file, tree);
  return tree;
}

export function walk(value: unknown, visit: (node: Node) => void): void {
  if (Array.isArray(value)) for (const item of value) walk(item, visit);
  if (!isNode(value)) return;
  visit(value);
  for (const inner of Object.values(value)) walk(inner, visit);
}

export function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value;
}

/** Returns the value of a string or a template; a `?` replaces each expression in it. */
export function textOf(value: unknown): string | undefined {
  if (!isNode(value)) return undefined;
  if (value['type'] === 'Literal' && typeof value['value'] === 'string') return value['value'];
  if (value['type'] !== 'TemplateLiteral' || !Array.isArray(value['quasis'])) return undefined;
  const parts = value['quasis'] as readonly { readonly value: { readonly raw: string } }[];
  return parts.map((part) => part.value.raw).join('?');
}

/** Returns the name of an identifier or of a key. */
export function nameOf(value: unknown): string | undefined {
  if (!isNode(value)) return undefined;
  const name = value['name'] ?? value['value'];
  return typeof name === 'string' ? name : undefined;
}
