/** A piece of text, or the name of a character that would not be seen. */
export interface Piece {
  readonly text: string;
  readonly isMark: boolean;
}

/**
 * What turns the direction of writing, moves a cursor or takes no room could make a text look like
 * another one. Line ends and tabs are what they are where lines are shown; the joiner within an emoji
 * is part of a picture.
 */
const joiner = String.raw`(?<!\p{Extended_Pictographic}\u{FE0F}?)\u{200D}`;
const others = String.raw`(?!\u{200D})[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\u{115F}\u{1160}\u{3164}\u{FFA0}]`;
const unseen = new RegExp(`${joiner}|${others}`, 'gu');

/** The text in pieces: what can be read, and marks in the place of what cannot be seen. */
export function pieces(
  text: string,
  { lines = false }: { readonly lines?: boolean } = {},
): Piece[] {
  const found: Piece[] = [];
  let at = 0;
  const sound = text.toWellFormed();
  for (const { 0: char, index } of sound.matchAll(unseen)) {
    if (lines && (char === '\n' || char === '\t')) continue;
    if (index > at) found.push({ text: sound.slice(at, index), isMark: false });
    found.push({ text: nameOf(char), isMark: true });
    at = index + char.length;
  }
  if (at < sound.length) found.push({ text: sound.slice(at), isMark: false });
  return found;
}

/** The same on one line, for what can hold nothing but text: titles and labels. */
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

/** Ids begin with the time, so that those of one minute begin alike: their end tells them apart. */
export function shortId(id: string): string {
  return id.length <= SHORT_HEAD + SHORT_TAIL + 1
    ? id
    : `${id.slice(0, SHORT_HEAD)}…${id.slice(-SHORT_TAIL)}`;
}
