// Joiners and selectors of variants are parts of some scripts and of pictures, but not of Latin words.
const joiners = String.raw`[\u{200C}\u{200D}\u{FE00}-\u{FE0F}]`;
const strayed = String.raw`(?<=(?:^|\p{Script=Latin})${joiners}*)${joiners}`;
const hidden = String.raw`(?!${joiners})\p{Default_Ignorable_Code_Point}|${strayed}`;
// A letter has a few marks at most; a pile of them is drawn over the lines above it.
const piled = String.raw`(?<=\p{M}{4})\p{M}`;
const unseen = new RegExp(
  String.raw`[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]|${hidden}|${piled}`,
  'gu',
);
const short: Readonly<Record<string, string>> = { '\r': '\\r', '\t': '\\t' };
const lineBreaks = /[ \t]*\r?\n\s*/g;
/** Stands for a line break in text that is shown on one line. */
const LINE_BREAK = ' ↵ ';

/**
 * The text on one line, with everything escaped that would move a terminal's cursor, start a new
 * line, turn the direction of writing or not be seen at all. What plugins say is shown only through
 * this; in JSON it is still the same JSON.
 */
export function toVisibleText(text: string): string {
  const line = text.replaceAll(lineBreaks, LINE_BREAK);
  return line.replaceAll(unseen, (char) => short[char] ?? escapeUnicode(char));
}

/** A message on one line: people read messages in lists, in logs and inside JSON. */
export function joinLines(message: string): string {
  return message.includes('\n') ? message.trim().replaceAll(lineBreaks, ' ') : message;
}

/** JSON or inspected text for people, where an escaped line break reads as noise. */
export function showEscapedBreaks(text: string): string {
  return text.replaceAll(/(?<!\\)((?:\\\\)*)(?:\\r)?\\n/g, `$1${LINE_BREAK}`);
}

function escapeUnicode(char: string): string {
  return char
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');
}

/** The content of a quoted string, as headers have it; text without quotes is returned as it is. */
export function unquote(text: string): string {
  const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(text)?.[1];
  return quoted === undefined ? text : quoted.replaceAll(/\\(.)/g, '$1');
}

/** Quotes an argument for a shell, so that text from outside can't become part of the command. */
export function quoteShell(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
