import { isNode, nameOf, type Node, parseSource, textOf, walk } from './ast.ts';
import type { TextFile } from './tree.ts';

/** The parts of a source file that the rules check. */
export interface Facts {
  readonly imports: readonly Import[];
  /** The value of every string and template; a `?` replaces each substitution. */
  readonly strings: readonly string[];
  readonly readsEnvironment: boolean;
}

export interface Import {
  readonly specifier: string;
  readonly isType: boolean;
  /** True for `import()`, which loads the file when it is needed. */
  readonly isDynamic?: boolean;
}

export function readFacts(file: TextFile): Facts {
  const imports: Import[] = [];
  const strings: string[] = [];
  let readsEnvironment = false;
  walk(parseSource(file), (node) => {
    const specifier = textOf(node['source']);
    if (specifier !== undefined) {
      const isDynamic = node['type'] === 'ImportExpression';
      imports.push({ specifier, isType: isTypeOnly(node), isDynamic });
    }
    if (specifier === 'node:process' || isEnvironment(node)) readsEnvironment = true;
    const string = textOf(node);
    if (string !== undefined) strings.push(string);
  });
  return { imports, strings, readsEnvironment };
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
