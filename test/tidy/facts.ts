import { parseAst } from 'vitest/node';
import type { TextFile } from './tree.ts';

/** What a source file says that a rule cares about. */
export interface Facts {
  readonly imports: readonly Import[];
  /** The value of every string and template; a `?` stands for what is filled in. */
  readonly strings: readonly string[];
  readonly readsEnvironment: boolean;
}

export interface Import {
  readonly specifier: string;
  readonly isType: boolean;
}

export function readFacts({ path, text }: TextFile): Facts {
  const imports: Import[] = [];
  const strings: string[] = [];
  let readsEnvironment = false;
  walk(parseAst(text, { lang: path.endsWith('x') ? 'tsx' : 'ts' }), (node) => {
    const specifier = textOf(node['source']);
    if (specifier !== undefined) imports.push({ specifier, isType: isTypeOnly(node) });
    if (specifier === 'node:process' || isEnvironment(node)) readsEnvironment = true;
    const string = textOf(node);
    if (string !== undefined) strings.push(string);
  });
  return { imports, strings, readsEnvironment };
}

type Node = Readonly<Record<string, unknown>>;

function walk(value: unknown, visit: (node: Node) => void): void {
  if (Array.isArray(value)) for (const item of value) walk(item, visit);
  if (!isNode(value)) return;
  visit(value);
  for (const inner of Object.values(value)) walk(inner, visit);
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value;
}

function textOf(value: unknown): string | undefined {
  if (!isNode(value)) return undefined;
  if (value['type'] === 'Literal' && typeof value['value'] === 'string') return value['value'];
  if (value['type'] !== 'TemplateLiteral' || !Array.isArray(value['quasis'])) return undefined;
  const parts = value['quasis'] as readonly { readonly value: { readonly raw: string } }[];
  return parts.map((part) => part.value.raw).join('?');
}

function isTypeOnly(node: Node): boolean {
  return (
    node['type'] === 'TSImportType' ||
    node['importKind'] === 'type' ||
    node['exportKind'] === 'type'
  );
}

function isEnvironment(node: Node): boolean {
  const { object, property } = node;
  return (
    isNode(object) && isNode(property) && object['name'] === 'process' && nameOf(property) === 'env'
  );
}

function nameOf(property: Node): unknown {
  return property['name'] ?? property['value'];
}
