/** Part of a text, or the name of an invisible character. */
export interface Piece {
  readonly text: string;
  readonly isMark: boolean;
}

/**
 * Characters that change the writing direction, move the cursor or have no width: they could make a
 * text look like another one. A joiner within an emoji is visible as part of the emoji.
 */
const joiner = String.raw`(?<!\p{Extended_Pictographic}\u{FE0F}?)\u{200D}`;
const others = String.raw`(?!\u{200D})[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\u{115F}\u{1160}\u{3164}\u{FFA0}]`;
const unseen = new RegExp(`${joiner}|${others}`, 'gu');

/** Splits a text into visible parts and marks for invisible characters. With `lines`, line ends and tabs stay. */
export function pieces(
  text: string,
  { lines = false }: { readonly lines?: boolean } = {},
): Piece[] {
  const found: Piece[] = [];
  let at = 0;
  const wellFormed = text.toWellFormed();
  for (const { 0: char, index } of wellFormed.matchAll(unseen)) {
    if (lines && (char === '\n' || char === '\t')) continue;
    if (index > at) found.push({ text: wellFormed.slice(at, index), isMark: false });
    found.push({ text: nameOf(char), isMark: true });
    at = index + char.length;
  }
  if (at < wellFormed.length) found.push({ text: wellFormed.slice(at), isMark: false });
  return found;
}

/** Returns the text on one line, for titles and labels, which can't contain elements. */
export function plain(text: string): string {
  return pieces(text)
    .map((piece) => (piece.isMark ? `⟨${piece.text}⟩` : piece.text))
    .join('');
}

const names: ReadonlyMap<string, string> = new Map([
  ['\n', '↵'],
  ['\r', 'CR'],
  ['\t', '⇥'],
  ['\u{1b}', 'ESC'],
  ['\0', 'NUL'],
]);

function nameOf(char: string): string {
  const known = names.get(char);
  return known ?? (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
}

const SHORT_HEAD = 8;
const SHORT_TAIL = 4;

/** Shortens an id. Ids start with the time, so the end distinguishes ids of the same minute. */
export function shortId(id: string): string {
  return id.length <= SHORT_HEAD + SHORT_TAIL + 1
    ? id
    : `${id.slice(0, SHORT_HEAD)}…${id.slice(-SHORT_TAIL)}`;
}
