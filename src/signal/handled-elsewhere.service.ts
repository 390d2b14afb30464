import { parseJson } from '../base/parse-json.ts';
import type { ConfigSnapshot } from '../config/snapshot-types.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** The signal types that the routes and pipelines of one live process handle. */
interface HandledTypes {
  readonly processId: string;
  readonly host: string;
  readonly types: ReadonlySet<string>;
}

type SnapshotReads = Pick<Ledger, 'kind' | 'processes' | 'snapshots'>;

const SNAPSHOTS_READ = 100;
/** Signals that nothing handles may come often; other hosts change their configuration rarely. */
const KEPT_MS = 5000;
const kept = new WeakMap<SnapshotReads, { readonly atMs: number; readonly all: HandledTypes[] }>();

/**
 * Says that other live hosts have a route or pipeline for a type that nothing here handles. A signal
 * is handled by the configuration of the host that accepts it, and by no other.
 */
export async function warnUnhandled(
  ledger: SnapshotReads,
  processId: string,
  type: string,
): Promise<string | undefined> {
  // A file has one process.
  if (ledger.kind === 'sqlite') return undefined;
  const known = kept.get(ledger);
  const isFresh = known !== undefined && performance.now() - known.atMs < KEPT_MS;
  const all = isFresh ? known.all : await listHandledTypes(ledger);
  if (!isFresh) kept.set(ledger, { atMs: performance.now(), all });
  const others = all.filter((one) => one.processId !== processId && one.types.has(type));
  if (others.length === 0) return undefined;
  const hosts = [...new Set(others.map(({ host }) => host))].join(', ');
  return (
    `nothing on this host handles ${type}, but the configuration of ${hosts} does; ` +
    'give all hosts the same routes and pipelines, then `ductile signal replay` it'
  );
}

/** The types that some live processes handle and others don't. */
export async function findUnevenTypes(ledger: SnapshotReads): Promise<string[]> {
  if (ledger.kind === 'sqlite') return [];
  const all = await listHandledTypes(ledger);
  const types = new Set(all.flatMap((one) => [...one.types]));
  return [...types].filter((type) => !all.every((one) => one.types.has(type))).toSorted();
}

async function listHandledTypes(ledger: SnapshotReads): Promise<HandledTypes[]> {
  const processes = await ledger.processes();
  if (processes.length < 2) return [];
  const snapshots = await ledger.snapshots(SNAPSHOTS_READ);
  return processes.flatMap(({ id, host }) => {
    const latest = snapshots.find(({ processId }) => processId === id);
    return latest === undefined ? [] : [{ processId: id, host, types: typesIn(latest) }];
  });
}

function typesIn({ config }: ConfigSnapshot): ReadonlySet<string> {
  const { routes = [], pipelines = [] } = parseJson(config) as {
    readonly routes?: readonly { readonly event_type?: unknown }[];
    readonly pipelines?: readonly { readonly on?: unknown }[];
  };
  const named = [...routes.map((one) => one.event_type), ...pipelines.map(({ on }) => on)];
  return new Set(named.filter((type) => typeof type === 'string'));
}
