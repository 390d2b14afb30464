/**
 * Reads the slice and the layer of a source file from its path. The folder is the noun; the suffix
 * is the layer. Folders of infrastructure have one layer for all their files.
 */

/** From left to right: within a layer, a slice imports only from slices before it. */
const sliceOrder: readonly (readonly string[])[] = [
  ['base'],
  ['config'],
  ['directive'],
  ['ledger', 'plugin'],
  ['access'],
  ['backup'],
  ['job'],
  ['signal'],
  ['schedule', 'pipeline'],
  ['webhook'],
  ['package'],
  ['tenant'],
  ['insight'],
  ['engine'],
  ['operation'],
  ['http', 'cli', 'mcp'],
  ['app'],
  ['prove', 'watch', 'workshop'],
  ['main'],
];

/** From left to right: a layer imports only from itself and from layers before it. */
export const layerOrder = [
  'base',
  'pure',
  'config',
  'storage',
  'sql',
  'ledger',
  'generation',
  'service',
  'engine',
  'operation',
  'operations',
  'dispatch',
  'surface',
  'app',
  'extra',
  'main',
] as const;

export type Layer = (typeof layerOrder)[number];

/** Slices that follow the suffixes; a file without a suffix is pure. */
const nouns = new Set([
  'access',
  'directive',
  'backup',
  'job',
  'signal',
  'schedule',
  'pipeline',
  'webhook',
  'package',
  'tenant',
  'insight',
]);

const folderLayers: Readonly<Record<string, Layer>> = {
  base: 'base',
  config: 'config',
  ledger: 'storage',
  plugin: 'storage',
  engine: 'engine',
  operation: 'operation',
  operations: 'operations',
  http: 'surface',
  cli: 'surface',
  mcp: 'surface',
  app: 'app',
  main: 'main',
};

/** Files and folders whose place says more than their suffix. */
const places: readonly (readonly [RegExp, Layer])[] = [
  // Declares columns as data, so that the pure file of a noun can be the one place that lists them.
  [/^src\/ledger\/table\.ts$/, 'base'],
  // The ledger binds the statements of all slices, so it comes after them.
  [/^src\/ledger\/(ledger|nouns|verbs|open|open-readonly)\.ts$/, 'ledger'],
  [/^src\/ledger\/(backup|restore|transfer|check)\.ts$/, 'ledger'],
  [/^src\/ledger\/(tenant-location|prune)\.ts$/, 'ledger'],
  [/^src\/ledger\/postgres\/open\.ts$/, 'ledger'],
  // The active configuration and the context of a ledger, which services read.
  [/^src\/engine\/(generation|context|commit-events)\.ts$/, 'generation'],
  // Everything that knows all operations.
  [/^src\/operation\/(all|invoke)\.ts$/, 'dispatch'],
  // Folders of one layer, in which each file would repeat the suffix.
  [/^src\/insight\/findings\//, 'service'],
  [/^src\/insight\/why\//, 'operations'],
];

/** Slices that each folder of `extras/` may import from, besides its own; undefined: every slice but main. */
const extras: Readonly<Record<string, readonly string[] | undefined>> = {
  // `prove` runs the whole service on a copy of the ledger.
  prove: undefined,
  watch: ['base', 'operation', 'cli'],
  workshop: ['base', 'config', 'plugin', 'operation', 'app'],
};
/** The only file of `src` that imports from `extras/`. */
const EXTRAS_ENTRY = 'src/app/extras.ts';

export interface Location {
  readonly slice: string;
  readonly layer: Layer;
}

/** Undefined for a file that is in no folder of the layout. */
export function locate(path: string): Location | undefined {
  const extra = /^extras\/(\w+)\//.exec(path)?.[1];
  if (extra !== undefined) return extra in extras ? { slice: extra, layer: 'extra' } : undefined;
  const slice = /^src\/(\w+)(?:\/|\.ts$)/.exec(path)?.[1] ?? '';
  const layer = layerOf(path, slice);
  return layer === undefined ? undefined : { slice, layer };
}

function layerOf(path: string, slice: string): Layer | undefined {
  const place = places.find(([pattern]) => pattern.test(path));
  if (place !== undefined) return place[1];
  if (slice !== 'base' && !nouns.has(slice) && folderLayers[slice] === undefined) return undefined;
  if (path.endsWith('.sql.ts')) return 'sql';
  if (path.endsWith('.service.ts')) return 'service';
  if (/(\/|\.)(directives|operations)\.ts$/.test(path)) return 'operations';
  if (/(\/|\.)view\.ts$/.test(path)) return 'surface';
  return nouns.has(slice) ? 'pure' : folderLayers[slice];
}

/** Says why a file of `extras/` may not be imported, or may not import; undefined when neither is the case. */
export function explainExtra(path: string, from: Location, to: Location): string | undefined {
  if (to.layer === 'extra' && from.layer !== 'extra') {
    return path === EXTRAS_ENTRY ? undefined : `only ${EXTRAS_ENTRY} imports from extras`;
  }
  if (from.layer !== 'extra' || from.slice === to.slice) return undefined;
  const allowed = extras[from.slice];
  if (to.layer === 'extra' || (allowed !== undefined && !allowed.includes(to.slice)))
    return `extras/${from.slice} can't import from ${to.slice}`;
  return undefined;
}

/** Says why one file may not import another; undefined when it may. */
export function explainDirection(from: Location, to: Location): string | undefined {
  const [own, other] = [layerOrder.indexOf(from.layer), layerOrder.indexOf(to.layer)];
  if (other < own) return undefined;
  if (other > own) return `a ${from.layer} file can't import a ${to.layer} file`;
  if (from.slice === to.slice || from.layer === 'surface') return undefined;
  const isBefore = rankOf(to.slice) < rankOf(from.slice);
  return isBefore ? undefined : `${to.slice} isn't before ${from.slice}`;
}

function rankOf(slice: string): number {
  return sliceOrder.findIndex((slices) => slices.includes(slice));
}

export function isPure({ layer }: Location): boolean {
  return layer === 'pure';
}
