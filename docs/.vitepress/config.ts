/** The documentation site, made of the same pages that are read in the repository. */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vitepress';
import { loadDiagrams } from '../../tools/site/diagram.ts';
import { makeMarkdownOptions } from '../../tools/site/markdown.ts';
import { readDocsPages } from '../../tools/site/pages.ts';
import { makeSidebars } from '../../tools/site/sidebar.ts';

const docs = dirname(dirname(fileURLToPath(import.meta.url)));
const build = join(dirname(docs), 'build');
const pages = await readDocsPages(docs);
const draw = await loadDiagrams();

export default defineConfig({
  lang: 'en-US',
  title: 'Ductile',
  description: 'Self-hosted automation that survives crashes.',
  base: '/docs/',
  cleanUrls: true,
  // The service serves the output of tools/build-docs, which compresses what is built here.
  outDir: join(build, 'docs'),
  cacheDir: join(build, 'docs-cache'),
  rewrites: (page) => page.replace(/(^|\/)README\.md$/, '$1index.md'),
  router: { prefetchLinks: false },
  // It would insert a style, which the policy of the service forbids.
  appearance: { disableTransition: false },
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: '/docs/icon.svg' }]],
  markdown: makeMarkdownOptions({ draw, pages }),
  themeConfig: {
    sidebar: makeSidebars(pages),
    outline: { level: [2, 3] },
    search: { provider: 'local', options: { detailedView: false } },
    nav: [],
    externalLinkIcon: true,
  },
  transformHead: ({ pageData }) => {
    if (pageData.filePath === '') return [];
    const href = `/docs/${pageData.filePath}`;
    return [['link', { rel: 'alternate', type: 'text/markdown', href }]];
  },
  vite: {
    publicDir: false,
    plugins: [listModules()],
    build: { chunkSizeWarningLimit: 4000 },
  },
});

/** Lists the bundled modules in a file, because their licenses have to be part of every copy. */
function listModules(): Plugin {
  return {
    name: 'list modules',
    generateBundle(_, bundle) {
      const ids = Object.values(bundle).flatMap((file) =>
        file.type === 'chunk' ? file.moduleIds : [],
      );
      const inputs = ids.flatMap((id) => /node_modules\/.*$/.exec(id)?.[0] ?? []);
      const source = JSON.stringify([...new Set(inputs)]);
      this.emitFile({ type: 'asset', fileName: 'modules.json', source });
    },
  };
}
