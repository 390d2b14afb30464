/** Makes Markdown on the site mean what it means in the repository. */
import type { MarkdownOptions, MarkdownRenderer } from 'vitepress';
import { codeClasses, codeTheme } from './code-theme.ts';
import type { DrawDiagram } from './diagram.ts';
import { findBareFolders, resolveLink, type DocsPage } from './pages.ts';
import { makeSlug } from './slug.ts';

/** The elements that pages may use; every other `<word>` is text. */
const elements = /^<\/?(?:a|b|br|code|details|em|i|img|kbd|li|ol|p|strong|sub|summary|sup|ul)\b/i;

interface PageEnvironment {
  /** Relative to `docs`, after the rewrite of README.md to index.md. */
  readonly relativePath?: string;
}

type Tokens = ReturnType<MarkdownRenderer['parse']>;

interface MarkdownContext {
  readonly draw: DrawDiagram;
  readonly pages: readonly DocsPage[];
}

/** Switches off the syntax that GitHub doesn't have. */
export function makeMarkdownOptions(context: MarkdownContext): MarkdownOptions {
  return {
    theme: codeTheme,
    codeTransformers: [codeClasses],
    linkify: false,
    attrs: false,
    emoji: false,
    component: false,
    snippet: false,
    include: false,
    toc: false,
    anchor: { slugify: makeSlug },
    config: (md) => configureMarkdown(md, context),
  };
}

type TokenMaker = new (type: string, tag: string, nesting: 0) => Tokens[number];

function configureMarkdown(md: MarkdownRenderer, { draw, pages }: MarkdownContext): void {
  const bareFolders = findBareFolders(pages);
  const isFolder = (path: string) => pages.some(({ source }) => source === `${path}/README.md`);
  md.core.ruler.before('vitepress_link_lines', 'repository_links', ({ tokens, env, Token }) => {
    const { relativePath = '' } = env as PageEnvironment;
    for (const token of tokens) {
      if (token.children === null) continue;
      const isMissing = (path: string) => path.startsWith('../') || bareFolders.has(path);
      token.children = fixLinks(token.children, { from: relativePath, isMissing, isFolder, Token });
    }
  });
  const { rules } = md.renderer;
  rules.html_block = (tokens, index) => keepElements(tokens[index]?.content ?? '', escape);
  rules.html_inline = (tokens, index) => {
    const { content = '', meta } = tokens[index] ?? {};
    const isOwn = (meta as { isPermalinkSymbol?: boolean } | null)?.isPermalinkSymbol === true;
    return isOwn ? content : keepElements(content, escape);
  };
  const { text: renderText, fence: renderFence, code_inline: renderCode } = rules;
  rules.text = (...all) => hideBraces(renderText?.(...all) ?? '');
  rules.code_inline = (...all) => (renderCode?.(...all) ?? '').replace('<code', '<code v-pre');
  rules.fence = (tokens, index, ...rest) => {
    const { info = '', content = '' } = tokens[index] ?? {};
    if (info.trim() === 'mermaid') return draw(content);
    return renderFence?.(tokens, index, ...rest) ?? '';
  };
  // A style attribute is against the site's policy, and an empty cell is no heading.
  for (const open of ['th_open', 'td_open']) {
    rules[open] = (tokens, index, options, _env, self) => {
      const token = tokens[index];
      if (token === undefined) return '';
      const side = /text-align:(\w+)/.exec(token.attrGet('style') ?? '')?.[1];
      if (side !== undefined) {
        token.attrs = (token.attrs ?? []).filter(([name]) => name !== 'style');
        token.attrJoin('class', `align-${side}`);
      }
      const [content, close] = [tokens[index + 1], tokens[index + 2]];
      if (content?.content === '' && close !== undefined) [token.tag, close.tag] = ['td', 'td'];
      return self.renderToken(tokens, index, options);
    };
  }

  function escape(text: string): string {
    return hideBraces(md.utils.escapeHtml(text));
  }
}

/** Vue would compute what is between two braces. */
function hideBraces(html: string): string {
  return html.replaceAll('{{', '&#123;&#123;');
}

function keepElements(html: string, escape: (text: string) => string): string {
  return html
    .replaceAll(/<!--[^]*?-->\n?/g, '')
    .split(/(<[^>]*>)/)
    .map((part) => (elements.test(part) ? part : escape(part)))
    .join('');
}

interface LinkRules {
  readonly from: string;
  readonly isMissing: (path: string) => boolean;
  readonly isFolder: (path: string) => boolean;
  readonly Token: TokenMaker;
}

/**
 * Points links to README.md at the page of that directory. A link to a file outside of `docs`, or to
 * a directory without a page, becomes its path, because the site doesn't contain it.
 */
function fixLinks(children: Tokens, { from, isMissing, isFolder, Token }: LinkRules): Tokens {
  const fixed: Tokens = [];
  let outside: string | undefined;
  let shown = '';
  for (const token of children) {
    if (token.type === 'link_open') {
      const href = token.attrGet('href') ?? '';
      if (!/^(?:[a-z][a-z0-9+.-]*:|#|\/)/i.test(href)) {
        const { path } = resolveLink(from, href);
        if (isMissing(path)) {
          [outside, shown] = [path.startsWith('../') ? path.slice(3) : `docs/${path}`, ''];
          continue;
        }
        const page = isFolder(path) ? href.replace(/\/?(?=#|$)/, '/') : href;
        token.attrSet('href', page.replace(/(^|\/)README\.md(?=#|$)/, '$1index.md'));
      }
    }
    if (outside !== undefined) {
      if (token.type === 'link_close') {
        if (!isShown(shown, outside)) fixed.push(...makePath(outside, Token));
        outside = undefined;
        continue;
      }
      shown += token.content;
      if (token.type === 'text' && isShown(token.content, outside)) {
        token.type = 'code_inline';
        token.tag = 'code';
      }
    }
    fixed.push(token);
  }
  return fixed;
}

function isShown(text: string, path: string): boolean {
  return text.replace(/\/$/, '') === path;
}

function makePath(path: string, Token: TokenMaker): Tokens {
  const open = new Token('text', '', 0);
  open.content = ' (';
  const code = new Token('code_inline', 'code', 0);
  code.content = path;
  const close = new Token('text', '', 0);
  close.content = ')';
  return [open, code, close];
}
