/** Orders the pages for the sidebar. A page that isn't named here comes last in its section. */
import type { DocsPage } from './pages.ts';

/** A section of the sidebar; the order names pages without `.md`, and folders inside the section. */
interface Section {
  readonly folder: string;
  readonly title: string;
  readonly order: readonly string[];
}

const sections: readonly Section[] = [
  {
    folder: 'get-started',
    title: 'Get started',
    order: splitWords(
      'quickstart install quickstart-cron quickstart-webhook quickstart-agent tutorial',
    ),
  },
  {
    folder: 'concepts',
    title: 'Concepts',
    order:
      splitWords(`jobs-and-attempts plugins schedules signals webhooks pipelines directives packages
      tenants guarantees glossary`),
  },
  {
    folder: 'guides',
    title: 'Guides',
    order: splitWords(`cli dashboard api mcp agents credentials
      run-a-job-later time-zones-and-dst catch-up-and-overlap quiet-hours
      retry-and-backoff handle-failures-and-alerts deduplicate-jobs limit-concurrency lock-a-resource
      webhooks verify-webhooks
      pipelines conditions-and-templates parallel-and-loops wait-for-approval wait-for-a-signal
      test-a-pipeline runs replay-and-revive
      follow-events query-with-sql`),
  },
  {
    folder: 'recipes',
    title: 'Recipes',
    order: splitWords('scheduled-command deploy-on-push watch-a-folder watch-an-address'),
  },
  {
    folder: 'plugins',
    title: 'Plugins',
    order:
      splitWords(`tutorial manifest protocol sdk-python sdk-typescript sdk-shell testing state-and-facts
      health-and-init prewarming isolation-and-limits limits shipped`),
  },
  {
    folder: 'operate',
    title: 'Operate',
    order:
      splitWords(`deploy systemd container postgresql production-checklist configuration reload upgrade
      backup-and-restore retention observe monitoring on-call troubleshooting tokens tenants
      reliability sizing-and-performance performance prove`),
  },
  { folder: 'security', title: 'Security', order: splitWords('model hardening') },
  { folder: 'compare', title: 'Compare', order: [] },
  { folder: 'migrate', title: 'Migrate', order: splitWords('from-cron') },
  {
    folder: 'reference',
    title: 'Reference',
    order: splitWords('cli config http operations errors findings limits tables'),
  },
];

/** Pages of no folder: questions and news come after the reference. */
const LOOSE: Section = { folder: '', title: 'More', order: splitWords('faq whats-in-0.1') };
const LAST: Section = {
  folder: 'internals',
  title: 'Internals',
  order: splitWords('architecture proof benchmarks dependencies decisions'),
};

function splitWords(text: string): string[] {
  return text.split(/\s+/);
}

const HOME = 'README.md';

export interface SidebarItem {
  readonly text: string;
  /** Address from the root of the site. */
  readonly link?: string;
  readonly collapsed?: boolean;
  readonly items?: SidebarItem[];
}

/**
 * Makes one sidebar for each section: all sections, with the pages of that one. A sidebar with all
 * pages in each page would be half of the site's size.
 */
export function makeSidebars(pages: readonly DocsPage[]): Record<string, SidebarItem[]> {
  const groups = makeGroups(pages);
  const sidebars = groups.map(({ prefix, title }) => {
    const items = groups.map((group): SidebarItem => {
      if (group.prefix === prefix) return { text: title, items: group.items };
      return { text: group.title, link: listLinks(group.items)[0] ?? '/' };
    });
    return [`/${prefix}`, items] as const;
  });
  return Object.fromEntries(sidebars);
}

/** Lists the sections with their pages, in the order of the sidebar. */
export function listPages(
  pages: readonly DocsPage[],
): (readonly [title: string, pages: readonly DocsPage[]])[] {
  const byLink = new Map(pages.map((page) => [`/${page.route}`, page]));
  const home = pages.filter(({ source }) => source === HOME);
  const groups = makeGroups(pages).map(({ title, items }) => {
    const found = listLinks(items).map((link) => byLink.get(link));
    return [title, found.filter((page) => page !== undefined)] as const;
  });
  return [['Home', home], ...groups];
}

interface SidebarGroup {
  readonly title: string;
  /** The section's folder with a slash. */
  readonly prefix: string;
  readonly items: SidebarItem[];
}

function makeGroups(pages: readonly DocsPage[]): SidebarGroup[] {
  const groups = listSections(pages).map(({ folder, title, order }) => {
    // The title above the sidebar leads to the first page.
    const inside = pages.filter((page) => folderOf(page) === folder && page.source !== HOME);
    const prefix = folder === '' ? '' : `${folder}/`;
    return { title, prefix, items: makeItems(inside, prefix, order) };
  });
  return groups.filter(({ items }) => items.length > 0);
}

function listSections(pages: readonly DocsPage[]): Section[] {
  const known = new Set([...sections, LOOSE, LAST].map(({ folder }) => folder));
  const unknown = [...new Set(pages.map(folderOf))].filter((folder) => !known.has(folder));
  const added = unknown.map((folder) => ({ folder, title: toTitle(folder), order: [] }));
  return [...sections, ...added, LOOSE, LAST];
}

function folderOf({ source }: DocsPage): string {
  return source.includes('/') ? source.slice(0, source.indexOf('/')) : '';
}

function makeItems(
  pages: readonly DocsPage[],
  prefix: string,
  order: readonly string[],
): SidebarItem[] {
  const names = new Set(pages.map(({ source }) => source.slice(prefix.length).split('/')[0] ?? ''));
  const rank = (name: string): number => {
    if (name === 'README.md') return -1;
    const at = order.indexOf(name.replace(/\.md$/, ''));
    return at === -1 ? order.length : at;
  };
  const sorted = [...names].toSorted((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  return sorted.map((name) => {
    const page = pages.find(({ source }) => source === `${prefix}${name}`);
    if (page !== undefined) return toItem(page);
    const below = `${prefix}${name}/`;
    const inside = pages.filter(({ source }) => source.startsWith(below));
    const items = makeItems(inside, below, []);
    return { text: toTitle(name), collapsed: true, items };
  });
}

function toItem({ title, route }: DocsPage): SidebarItem {
  return { text: title, link: `/${route}` };
}

function toTitle(folder: string): string {
  const words = folder.replaceAll('-', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Lists the addresses of the sidebar in its order. */
export function listLinks(items: readonly SidebarItem[]): string[] {
  return items.flatMap(({ link, items: inner = [] }) => [
    ...(link === undefined ? [] : [link]),
    ...listLinks(inner),
  ]);
}
