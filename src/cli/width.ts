/** How many columns of a terminal a text takes. */
export function widthOf(text: string): number {
  if (plain.test(text)) return text.length;
  let width = 0;
  for (const { segment } of segmenter().segment(text)) width += segmentWidth(segment);
  return width;
}

/** The text in so many columns: cut with an ellipsis, or filled up with spaces. */
export function fitText(text: string, columns: number): string {
  const width = widthOf(text);
  return width > columns ? cut(text, columns) : text + ' '.repeat(columns - width);
}

/** The text in at most so many columns. */
export function cut(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let kept = '';
  let width = 0;
  for (const { segment } of segmenter().segment(text)) {
    width += segmentWidth(segment);
    if (width > columns - 1) break;
    kept += segment;
  }
  return columns > 0 ? `${kept}…` : '';
}

/** The text in lines of at most so many columns; those after the first are set in a little. */
export function wrap(text: string, columns: number): string[] {
  if (widthOf(text) <= columns) return [text];
  const lines: string[] = [];
  let kept = '';
  let width = 0;
  for (const { segment } of segmenter().segment(text)) {
    const more = segmentWidth(segment);
    if (width + more > columns && width > INDENT.length) {
      lines.push(kept);
      kept = INDENT;
      width = INDENT.length;
    }
    kept += segment;
    width += more;
  }
  return [...lines, kept];
}

const INDENT = '  ';
const plain = /^[\x20-\x7e…]*$/;
// Scripts of East Asia and most emoji take two columns; marks that sit on a letter take none.
const wide = new RegExp(
  [
    String.raw`[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff]`,
    String.raw`[\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\ufe0f]`,
    String.raw`[\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]`,
    String.raw`\p{Emoji_Presentation}`,
  ].join('|'),
  'u',
);
const unseen = /^[\p{M}\p{Cf}]+$/u;

function segmentWidth(segment: string): number {
  if (unseen.test(segment)) return 0;
  return wide.test(segment) ? 2 : 1;
}

let made: Intl.Segmenter | undefined;

/** Made late, because making it takes longer than most tables need. */
function segmenter(): Intl.Segmenter {
  return (made ??= new Intl.Segmenter('en', { granularity: 'grapheme' }));
}
