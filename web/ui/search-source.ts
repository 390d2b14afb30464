/** What the server knows of names and ids, for the search. */
import { call, Refusal } from '../api/client.ts';
import { link } from '../route.ts';
import { isId, type Entry, type Known } from '../text/search.ts';

export type Names = Omit<Known, 'pages'>;

export const nothing: Names = {
  plugins: [],
  pipelines: [],
  schedules: [],
  webhooks: [],
  packages: [],
  tenants: [],
};

/** What the token may not see is not found. */
export async function readNames(): Promise<Names> {
  const list = async (names: Promise<readonly string[]>): Promise<readonly string[]> =>
    names.catch(() => []);
  const [plugins, pipelines, schedules, webhooks, packages, tenants] = await Promise.all([
    list(call('plugin.list', {}).then((told) => told.plugins.map(({ name }) => name))),
    list(call('pipeline.list', {}).then((told) => told.pipelines.map(({ name }) => name))),
    list(
      call('schedule.list', {}).then((told) =>
        told.schedules.map(({ plugin, schedule_id }) => `${plugin}/${schedule_id}`),
      ),
    ),
    list(call('webhook.list', {}).then((told) => told.webhooks.map(({ id }) => id))),
    list(call('package.list', {}).then((told) => told.packages.map(({ slug }) => slug))),
    list(call('tenant.list', {}).then((told) => told.tenants.map(({ slug }) => slug))),
  ]);
  return { plugins, pipelines, schedules, webhooks, packages, tenants };
}

const TYPED_MS = 150;

/** What is known of an id that was typed. */
export interface Sought {
  readonly isAsking: boolean;
  readonly found?: Entry;
  /** Why nothing was found. */
  readonly why?: string;
}

export const notAsked: Sought = { isAsking: false };

/** Asks what an id is of, once the reader stops typing; what it gives forgets the question. */
export function findById(words: string, tell: (sought: Sought) => void): () => void {
  tell(isId(words) ? { isAsking: true } : notAsked);
  if (!isId(words)) return () => undefined;
  const over = new AbortController();
  const timer = setTimeout(() => {
    void lookUp(words.trim().toLowerCase(), over.signal).then((sought) => {
      if (!over.signal.aborted) tell(sought);
    });
  }, TYPED_MS);
  return () => {
    clearTimeout(timer);
    over.abort();
  };
}

async function lookUp(id: string, signal: AbortSignal): Promise<Sought> {
  const ways = [
    async () => {
      const told = await call('why.explain', { id, kind: 'any' }, { signal });
      return toEntry(told.kind, told.id, told.state);
    },
    async () => {
      const { incident_id, status } = await call('incident.show', { id }, { signal });
      return toEntry('incident', incident_id, status);
    },
  ];
  for (const way of ways) {
    try {
      return { isAsking: false, found: await way() };
    } catch (thrown) {
      // What begins like several things is none of them, and what may not be seen is not there.
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
