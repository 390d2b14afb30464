/** Finds names in src that the style doesn't allow. */
import { isNode, nameOf, type Node, parseSource, walk } from './ast.ts';
import type { Occurrence, TextFile } from './tree.ts';

export interface NameFaults {
  /** Exported by more than one file. */
  readonly colliding: readonly Occurrence[];
  readonly participles: readonly Occurrence[];
  /** `hook` without `web`, in declared names and in names of files. */
  readonly hooks: readonly Occurrence[];
  /** Interfaces that end with Options, Seams or Parts. */
  readonly bags: readonly Occurrence[];
  /** Members like `onEnd` of such interfaces. */
  readonly callbacks: readonly Occurrence[];
}

const irregular =
  'Told|Kept|Held|Found|Given|Taken|Made|Said|Seen|Known|Done|Sent|Built|Left|Lost|Met|Stood|' +
  'Heard|Shown|Written|Drawn|Begun|Brought|Caught|Chosen|Gone|Hung|Laid|Led|Paid|Sought|Spent|' +
  'Spoken|Swept|Thrown|Won|Woken|Understood';
/** A participle, with or without `un`, such as `Asked`; `Feed` and `Seed` don't match. */
const PARTICIPLE = new RegExp(
  `^(?:${irregular}|Un(?:${irregular.toLowerCase()})|[A-Z][a-z]*[^e\\W]ed)$`,
);
const HOOK = /(?<!web)hook/i;
const BAG = /(?:Options|Seams|Parts)$/;
const typeNodes = new Set(['TSInterfaceDeclaration', 'TSTypeAliasDeclaration']);

export function findNames(files: readonly TextFile[]): NameFaults {
  const exporters = new Map<string, Set<string>>();
  const faults = { participles: [], hooks: [], bags: [], callbacks: [] } as Record<
    Exclude<keyof NameFaults, 'colliding'>,
    Occurrence[]
  >;
  for (const file of files) {
    const { path } = file;
    if (HOOK.test(path)) faults.hooks.push({ path, text: path });
    walk(parseSource(file), (node) => {
      for (const name of exportedBy(node)) {
        exporters.set(name, (exporters.get(name) ?? new Set()).add(path));
      }
      const declared = [...declaredBy(node), ...parametersOf(node)];
      faults.hooks.push(
        ...declared.filter((name) => HOOK.test(name)).map((text) => ({ path, text })),
      );
      if (!typeNodes.has(String(node['type']))) return;
      const name = nameOf(node['id']) ?? '';
      if (PARTICIPLE.test(name)) faults.participles.push({ path, text: name });
      const members = membersOf(node);
      if (!BAG.test(name) || members === undefined) return;
      faults.bags.push({ path, text: name });
      const callbacks = members.filter((member) => /^on[A-Z]/.test(member));
      faults.callbacks.push(...callbacks.map((member) => ({ path, text: `${name}.${member}` })));
    });
  }
  const colliding = [...exporters]
    .filter(([, paths]) => paths.size > 1)
    .map(([name, paths]) => ({ path: [...paths].join(', '), text: name }));
  return { colliding, ...faults };
}

function exportedBy(node: Node): string[] {
  if (node['type'] !== 'ExportNamedDeclaration') return [];
  // A re-exported name belongs to its own file.
  if (isNode(node['source'])) return [];
  const declared = isNode(node['declaration']) ? declaredBy(node['declaration']) : [];
  const specifiers = Array.isArray(node['specifiers']) ? node['specifiers'] : [];
  return [
    ...declared,
    ...specifiers.flatMap((specifier: Node) => nameOf(specifier['exported']) ?? []),
  ];
}

/** The names of types, functions, classes and variables. */
function declaredBy(node: Node): string[] {
  const type = String(node['type']);
  if (type === 'VariableDeclaration' && Array.isArray(node['declarations'])) {
    return node['declarations'].flatMap((each: Node) => nameOf(each['id']) ?? []);
  }
  if (!typeNodes.has(type) && !/^(?:Function|Class)Declaration$/.test(type)) return [];
  return [nameOf(node['id'])].filter((name) => name !== undefined);
}

function parametersOf(node: Node): string[] {
  if (!/Function/.test(String(node['type'])) || !Array.isArray(node['params'])) return [];
  return node['params'].map(nameOf).filter((name) => name !== undefined);
}

/** The members of an interface or of an object type. */
function membersOf(node: Node): string[] | undefined {
  const body = isNode(node['body']) ? node['body']['body'] : undefined;
  const literal = isNode(node['typeAnnotation']) ? node['typeAnnotation']['members'] : undefined;
  const members = body ?? literal;
  if (!Array.isArray(members)) return undefined;
  return members.flatMap((member: Node) => nameOf(member['key']) ?? []);
}
