import { posix } from 'node:path';
import type { Import } from './facts.ts';
import { LOCK } from './house.ts';

/** From left to right: a folder imports only from what stands further left. */
const levels: readonly (readonly string[])[] = [
  ['base'],
  ['job', 'signal', 'schedule', 'pipeline', 'webhook', 'directive', 'package'],
  ['config'],
  ['plugin', 'ledger'],
  ['insight'],
  ['engine'],
  ['operations'],
  ['http', 'cli', 'mcp'],
  ['app'],
  ['main'],
];
const pure = new Set(levels[1]);
/** Pure folders that the other pure folders may use. */
const shared = new Set(['job', 'signal']);
/** What else a pure folder may use: a webhook has quiet hours, and signatures are only arithmetic. */
const granted = new Set(['webhook schedule', 'webhook node:crypto']);
const surfaces = new Set(['http', 'cli', 'mcp']);
const behindOperations = new Set(['engine', 'ledger']);
const drivers = new Set(['pg', 'node:sqlite']);

export type ImportGraph = ReadonlyMap<string, readonly Import[]>;

export function findLayerFaults(graph: ImportGraph): string[] {
  const faults: string[] = [];
  for (const [path, imports] of graph) {
    for (const found of imports) {
      const fault = judge(path, found);
      if (fault !== undefined) faults.push(`${path} imports ${found.specifier}: ${fault}`);
    }
  }
  const ring = findCycle(toEdges(graph)) ?? findCycle(toFolderEdges(graph));
  if (ring !== undefined) faults.push(`cycle: ${ring.join(' → ')}`);
  return faults;
}

function judge(path: string, { specifier, isType }: Import): string | undefined {
  if (path.startsWith(PAGE)) return judgePage(path, { specifier, isType });
  const from = folderOf(path);
  if (levelOf(from) === -1) return `${from} is no folder of the house`;
  if (!specifier.startsWith('.')) {
    return path === LOCK ? undefined : judgePackage(from, specifier, isType);
  }
  const target = resolveImport(path, specifier);
  if (target === 'package.json') return undefined;
  if (!target.startsWith('src/')) return 'it is outside of src';
  if (!target.endsWith('.ts')) return 'relative imports end in .ts';
  return judgeFolder(from, folderOf(target));
}

/** The dashboard: what runs in a browser. */
const PAGE = 'web/';
/** The one file that the build replaces by what it works out. */
const WORKED_OUT = 'web/api/places.ts';
/** Small and pure, and the same wherever a stream of events is read. */
const forPages = new Set(['src/base/exact-number.ts', 'src/base/parse-json.ts', 'src/base/sse.ts']);

/** It speaks to the server over its API, and so has nothing of the server but types. */
function judgePage(path: string, { specifier, isType }: Import): string | undefined {
  if (!specifier.startsWith('.')) {
    return /^preact(\/|$)/.test(specifier) ? undefined : 'a page has no package but preact';
  }
  const target = resolveImport(path, specifier);
  if (!/\.tsx?$/.test(target)) return 'relative imports end in .ts or .tsx';
  if (target.startsWith(PAGE) || forPages.has(target) || path === WORKED_OUT) return undefined;
  if (!target.startsWith('src/operations/')) return 'a page knows operations alone';
  return isType ? undefined : 'a page has only the types of operations';
}

function judgePackage(from: string, specifier: string, isType: boolean): string | undefined {
  if (drivers.has(specifier) && from !== 'ledger') return 'only the ledger speaks to a database';
  if (granted.has(`${from} ${specifier}`)) return undefined;
  if (specifier.startsWith('node:') && pure.has(from) && !isType) return `${from} is pure`;
  return undefined;
}

function judgeFolder(from: string, to: string): string | undefined {
  if (from === to) return undefined;
  if (levelOf(to) === -1) return `${to} is no folder of the house`;
  if (surfaces.has(from) && behindOperations.has(to)) return `${from} asks operations, never ${to}`;
  if (levelOf(to) < levelOf(from)) return undefined;
  if (levelOf(to) > levelOf(from)) return `${to} stands further right than ${from}`;
  if (granted.has(`${from} ${to}`)) return undefined;
  return pure.has(from) && shared.has(to) ? undefined : `${from} and ${to} do not know each other`;
}

/** `src/main.ts` and `src/app.ts` count as folders of their own. */
function folderOf(path: string): string {
  return posix.basename(path.split('/')[1] ?? '', '.ts');
}

function levelOf(folder: string): number {
  return levels.findIndex((level) => level.includes(folder));
}

function resolveImport(path: string, specifier: string): string {
  return posix.join(posix.dirname(path), specifier);
}

type Edges = ReadonlyMap<string, ReadonlySet<string>>;

function toEdges(graph: ImportGraph): Edges {
  const edges = new Map<string, Set<string>>();
  for (const [path, imports] of graph) {
    const targets = imports.map(({ specifier }) => resolveImport(path, specifier));
    edges.set(path, new Set(targets.filter((target) => graph.has(target))));
  }
  return edges;
}

function toFolderEdges(graph: ImportGraph): Edges {
  const edges = new Map<string, Set<string>>();
  for (const [path, targets] of toEdges(graph)) {
    // Its folders are nouns as well, and their pages lead to each other.
    if (path.startsWith(PAGE)) continue;
    const from = folderOf(path);
    const known = edges.get(from) ?? new Set();
    for (const target of targets) if (folderOf(target) !== from) known.add(folderOf(target));
    edges.set(from, known);
  }
  return edges;
}

/** The first ring found, its start repeated at its end. */
function findCycle(edges: Edges): string[] | undefined {
  const done = new Set<string>();
  const trail: string[] = [];
  const visit = (at: string): string[] | undefined => {
    if (trail.includes(at)) return [...trail.slice(trail.indexOf(at)), at];
    if (done.has(at)) return undefined;
    trail.push(at);
    for (const next of edges.get(at) ?? []) {
      const ring = visit(next);
      if (ring !== undefined) return ring;
    }
    trail.pop();
    done.add(at);
    return undefined;
  };
  for (const start of edges.keys()) {
    const ring = visit(start);
    if (ring !== undefined) return ring;
  }
  return undefined;
}
