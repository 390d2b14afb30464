import { call, Refusal } from '../api/client.ts';
import { link } from '../route.ts';
import { isId, type Entry, type SearchNames } from '../text/search.ts';

export type Names = Omit<SearchNames, 'pages'>;

export const nothing: Names = {
  plugins: [],
  pipelines: [],
  schedules: [],
  webhooks: [],
  packages: [],
  tenants: [],
};

/** Loads the names that the token may read. */
export async function readNames(): Promise<Names> {
  const list = async (names: Promise<readonly string[]>): Promise<readonly string[]> =>
    names.catch(() => []);
  const [plugins, pipelines, schedules, webhooks, packages, tenants] = await Promise.all([
    list(call('plugin.list', {}).then((result) => result.plugins.map(({ name }) => name))),
    list(call('pipeline.list', {}).then((result) => result.pipelines.map(({ name }) => name))),
    list(
      call('schedule.list', {}).then((result) =>
        result.schedules.map(({ plugin, schedule_id }) => `${plugin}/${schedule_id}`),
      ),
    ),
    list(call('webhook.list', {}).then((result) => result.webhooks.map(({ id }) => id))),
    list(call('package.list', {}).then((result) => result.packages.map(({ slug }) => slug))),
    list(call('tenant.list', {}).then((result) => result.tenants.map(({ slug }) => slug))),
  ]);
  return { plugins, pipelines, schedules, webhooks, packages, tenants };
}

const TYPED_MS = 150;

/** Result of looking up an id. */
export interface IdLookup {
  readonly isAsking: boolean;
  readonly found?: Entry;
  /** Reason why nothing was found. */
  readonly why?: string;
}

export const noLookup: IdLookup = { isAsking: false };

/** Looks up an id when the user stops typing. The returned function cancels the lookup. */
export function findById(words: string, onResult: (result: IdLookup) => void): () => void {
  onResult(isId(words) ? { isAsking: true } : noLookup);
  if (!isId(words)) return () => undefined;
  const aborted = new AbortController();
  const timer = setTimeout(() => {
    void lookUp(words.trim().toLowerCase(), aborted.signal).then((result) => {
      if (!aborted.signal.aborted) onResult(result);
    });
  }, TYPED_MS);
  return () => {
    clearTimeout(timer);
    aborted.abort();
  };
}

async function lookUp(id: string, signal: AbortSignal): Promise<IdLookup> {
  const lookups = [
    async () => {
      const result = await call('why.explain', { id, kind: 'any' }, { signal });
      return toEntry(result.kind, result.id, result.state);
    },
    async () => {
      const { incident_id, status } = await call('incident.show', { id }, { signal });
      return toEntry('incident', incident_id, status);
    },
  ];
  for (const lookup of lookups) {
    try {
      return { isAsking: false, found: await lookup() };
    } catch (thrown) {
      // An ambiguous or forbidden id counts as not found.
      const isMissing = thrown instanceof Refusal && [403, 404].includes(thrown.status);
      if (!isMissing) return { isAsking: false, why: messageOf(thrown) };
    }
  }
  return { isAsking: false, why: 'Nothing has this id.' };
}

function toEntry(kind: string, id: string, state: string): Entry {
  return {
    title: `${kind} ${id}`,
    kind: state.replaceAll('_', ' '),
    href: link(`${kind}s`, { id }),
  };
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
