import { link } from '../route.ts';

export interface Entry {
  readonly title: string;
  readonly kind: string;
  readonly href: string;
}

/** Names that the search finds, by kind. */
export interface SearchNames {
  readonly pages: readonly (readonly [page: string, title: string])[];
  readonly plugins: readonly string[];
  readonly pipelines: readonly string[];
  readonly schedules: readonly string[];
  readonly webhooks: readonly string[];
  readonly packages: readonly string[];
  readonly tenants: readonly string[];
}

const SHOWN_MAX = 12;
const ID = /^[0-9a-f][0-9a-f-]{3,35}$/i;

/** Returns the entries that contain the words; those that start with them come first. */
export function findEntries(words: string, names: SearchNames): Entry[] {
  const query = words.trim().toLowerCase();
  const all = namesOf(names);
  if (query === '') return all.slice(0, names.pages.length);
  const named = all.filter(({ title }) => title.toLowerCase().includes(query));
  const begins = ({ title }: Entry): number => (title.toLowerCase().startsWith(query) ? 0 : 1);
  return named.toSorted((a, b) => begins(a) - begins(b)).slice(0, SHOWN_MAX);
}

/** True for an id or its first characters. */
export function isId(words: string): boolean {
  return ID.test(words.trim());
}

function namesOf(names: SearchNames): Entry[] {
  const of = (kind: string, list: readonly string[]): Entry[] =>
    list.map((name) => ({ title: name, kind, href: link(`${kind}s`, { id: name }) }));
  return [
    ...names.pages.map(([page, title]) => ({ title, kind: 'page', href: link(page) })),
    ...of('plugin', names.plugins),
    ...names.plugins.map((plugin) => ({
      title: `${plugin} jobs`,
      kind: 'jobs',
      href: link('jobs', { query: { plugin } }),
    })),
    ...names.pipelines.map((pipeline) => ({
      title: pipeline,
      kind: 'pipeline',
      href: link('runs', { query: { pipeline } }),
    })),
    ...of('schedule', names.schedules),
    ...of('webhook', names.webhooks),
    ...of('package', names.packages),
    ...of('tenant', names.tenants),
  ];
}
