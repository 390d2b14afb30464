/** Colors of code on the site. The colors of the theme stand for classes, which the style sheet colors. */
import type { MarkdownOptions } from 'vitepress';

type CodeTransformer = NonNullable<MarkdownOptions['codeTransformers']>[number];

const classes: ReadonlyMap<string, readonly string[]> = new Map([
  ['comment', ['comment', 'punctuation.definition.comment']],
  // Not the words of a command or the values of YAML, which are most of the text.
  ['string', ['string.quoted', 'string.template', 'string.regexp', 'constant.other.symbol']],
  ['prompt', ['entity.other.prompt-prefix', 'punctuation.separator.prompt']],
  ['number', ['constant.numeric', 'constant.language', 'constant.character']],
  ['keyword', ['keyword', 'storage', 'keyword.operator.expression']],
  ['name', ['entity.name', 'support.function', 'support.type', 'support.class']],
  ['variable', ['variable.other.normal', 'variable.parameter', 'entity.other.attribute-name']],
]);

const PLAIN = '#000000';
const colorOf = (index: number): string => `#00000${index + 1}`;

export const codeTheme = {
  name: 'ductile',
  type: 'light' as const,
  fg: PLAIN,
  bg: '#ffffff',
  settings: [
    { settings: { foreground: PLAIN, background: '#ffffff' } },
    ...[...classes.values()].map((scope, index) => ({
      scope: [...scope],
      settings: { foreground: colorOf(index) },
    })),
  ],
};

const names = new Map([...classes.keys()].map((name, index) => [colorOf(index), name]));

/** Replaces the style of each word by a class, because the site's policy allows no style attribute. */
export const codeClasses: CodeTransformer = {
  name: 'classes',
  pre(node) {
    delete node.properties['style'];
  },
  span(node) {
    const style = node.properties['style']?.toString() ?? '';
    delete node.properties['style'];
    const name = names.get(/color:(#\w{6})/.exec(style)?.[1] ?? '');
    if (name !== undefined) node.properties['class'] = `code-${name}`;
  },
};
