import { posix } from 'node:path';
import type { Import } from './facts.ts';
import { LOCK } from './file-rules.ts';
import { explainDirection, explainExtra, locate, type Location } from './layout.ts';

/** Packages that a pure file may use: signatures are only arithmetic. */
const pureBuiltins = new Set(['node:crypto']);
const surfaces = new Set(['http', 'cli', 'mcp']);
const drivers = new Set(['pg', 'node:sqlite']);

export type ImportGraph = ReadonlyMap<string, readonly Import[]>;

/** `debts` are imports against the direction that are known, written as `from → to`. */
export function findLayerFaults(graph: ImportGraph, debts: readonly string[] = []): string[] {
  const faults: string[] = [];
  const owed = new Set(debts);
  for (const [path, imports] of graph) {
    for (const found of imports) {
      const fault = verify(path, found);
      const isKnown = owed.delete(`${path} → ${resolveImport(path, found.specifier)}`);
      if (fault !== undefined && !isKnown)
        faults.push(`${path} imports ${found.specifier}: ${fault}`);
      if (fault === undefined && isKnown)
        faults.push(`${path} imports ${found.specifier}: it is no debt any more`);
    }
  }
  for (const debt of owed) faults.push(`${debt}: it is no debt any more`);
  const ring = findCycle(toEdges(graph));
  if (ring !== undefined) faults.push(`cycle: ${ring.join(' → ')}`);
  return faults;
}

function verify(
  path: string,
  { specifier, isType, isDynamic = false }: Import,
): string | undefined {
  if (path.startsWith(PAGE)) return judgePage(path, { specifier, isType });
  const from = locate(path);
  if (from === undefined) return `${path} is in no folder of the layout`;
  if (!specifier.startsWith('.')) {
    return path === LOCK ? undefined : judgePackage(from, specifier, isType);
  }
  const target = resolveImport(path, specifier);
  if (target === 'package.json') return undefined;
  if (!/^(src|extras)\//.test(target)) return 'it is outside of src and extras';
  if (!target.endsWith('.ts')) return 'relative imports end in .ts';
  const to = locate(target);
  if (to === undefined) return `${target} is in no folder of the layout`;
  if (from.layer === 'extra' || to.layer === 'extra') {
    const isStatic = to.layer === 'extra' && from.layer !== 'extra' && !isDynamic;
    return explainExtra(path, from, to) ?? (isStatic ? 'extras are loaded on demand' : undefined);
  }
  return judgeSurface(from, to) ?? explainDirection(from, to);
}

/** HTTP, the command line and MCP use operations, and know nothing of what is behind them. */
function judgeSurface(from: Location, to: Location): string | undefined {
  if (!surfaces.has(from.slice) || from.layer !== 'surface') return undefined;
  if (to.layer === 'surface') {
    const isOwn = to.slice === from.slice || (from.slice === 'cli' && !surfaces.has(to.slice));
    return isOwn ? undefined : `${from.slice} and ${to.slice} do not know each other`;
  }
  const isBehind = ['sql', 'service', 'ledger', 'engine', 'generation'].includes(to.layer);
  return isBehind || to.slice === 'ledger' ? `${from.slice} uses operations only` : undefined;
}

/** The dashboard: what runs in a browser. */
const PAGE = 'web/';
/** The one file that the build replaces by what it works out. */
const WORKED_OUT = 'web/api/http-routes.ts';
/** Small and pure, and the same wherever a stream of events is read. */
const forPages = new Set(['src/base/parse-json.ts', 'src/base/sse.ts']);

const forTypes = new Set<string>(['operation', 'operations', 'dispatch']);

/** The dashboard uses the server's API, so it imports only types of the server. */
function judgePage(path: string, { specifier, isType }: Import): string | undefined {
  if (!specifier.startsWith('.')) {
    return /^preact(\/|$)/.test(specifier) ? undefined : 'a page has no package but preact';
  }
  const target = resolveImport(path, specifier);
  if (!/\.tsx?$/.test(target)) return 'relative imports end in .ts or .tsx';
  if (target.startsWith(PAGE) || forPages.has(target) || path === WORKED_OUT) return undefined;
  const layer = locate(target)?.layer ?? 'main';
  if (!forTypes.has(layer)) return 'a page knows operations alone';
  return isType ? undefined : 'a page has only the types of operations';
}

function judgePackage(from: Location, specifier: string, isType: boolean): string | undefined {
  if (drivers.has(specifier) && from.slice !== 'ledger') return 'only the ledger uses a database';
  if (!specifier.startsWith('node:') || isType || pureBuiltins.has(specifier)) return undefined;
  if (from.layer === 'pure') return 'a pure file has no input or output';
  return from.layer === 'sql' ? 'a file of statements has no input or output' : undefined;
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
