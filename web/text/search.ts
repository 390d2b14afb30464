import { link } from '../route.ts';

export interface Entry {
  readonly title: string;
  readonly kind: string;
  readonly href: string;
}

/** What has a name, by the page that shows it. */
export interface Known {
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

/** What has the words in its name, what begins with them first. */
export function findEntries(words: string, known: Known): Entry[] {
  const wanted = words.trim().toLowerCase();
  const all = namesOf(known);
  if (wanted === '') return all.slice(0, known.pages.length);
  const named = all.filter(({ title }) => title.toLowerCase().includes(wanted));
  const begins = ({ title }: Entry): number => (title.toLowerCase().startsWith(wanted) ? 0 : 1);
  return named.toSorted((a, b) => begins(a) - begins(b)).slice(0, SHOWN_MAX);
}

/** Whether it may be an id, or the beginning of one. */
export function isId(words: string): boolean {
  return ID.test(words.trim());
}

function namesOf(known: Known): Entry[] {
  const of = (kind: string, names: readonly string[]): Entry[] =>
    names.map((name) => ({ title: name, kind, href: link(`${kind}s`, { id: name }) }));
  return [
    ...known.pages.map(([page, title]) => ({ title, kind: 'page', href: link(page) })),
    ...of('plugin', known.plugins),
    ...known.plugins.map((plugin) => ({
      title: `${plugin} jobs`,
      kind: 'jobs',
      href: link('jobs', { query: { plugin } }),
    })),
    ...known.pipelines.map((pipeline) => ({
      title: pipeline,
      kind: 'pipeline',
      href: link('runs', { query: { pipeline } }),
    })),
    ...of('schedule', known.schedules),
    ...of('webhook', known.webhooks),
    ...of('package', known.packages),
    ...of('tenant', known.tenants),
  ];
}
