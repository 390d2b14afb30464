/** What the server knows of names and ids, for the search. */
import { call } from '../api/client.ts';
import { link } from '../route.ts';
import { isId, type Entry, type Known } from '../text/find.ts';

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

/** Asks what an id is of, once the reader stops typing; what it gives forgets the question. */
export function findById(words: string, tell: (found: Entry) => void): () => void {
  if (!isId(words)) return () => undefined;
  const over = new AbortController();
  const timer = setTimeout(() => {
    call('why.explain', { id: words.trim().toLowerCase(), kind: 'any' }, { signal: over.signal })
      .then(({ kind, id, state }) => ({
        title: `${kind} ${id}`,
        kind: state.replaceAll('_', ' '),
        href: link(`${kind}s`, { id }),
      }))
      .then(
        (found) => {
          if (!over.signal.aborted) tell(found);
        },
        // Then the reader is offered every kind that has ids.
        () => undefined,
      );
  }, TYPED_MS);
  return () => {
    clearTimeout(timer);
    over.abort();
  };
}
