// Joiners and variation selectors belong to some scripts and to emoji, but not to Latin words.
const joiners = String.raw`[\u{200C}\u{200D}\u{FE00}-\u{FE0F}]`;
const strayed = String.raw`(?<=(?:^|\p{Script=Latin})${joiners}*)${joiners}`;
const hidden = String.raw`(?!${joiners})\p{Default_Ignorable_Code_Point}|${strayed}`;
// A letter has a few combining marks at most; many of them are drawn over the lines above it.
const piled = String.raw`(?<=\p{M}{4})\p{M}`;
const unseen = new RegExp(
  String.raw`[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]|${hidden}|${piled}`,
  'gu',
);
const short: Readonly<Record<string, string>> = { '\r': '\\r', '\t': '\\t' };
const lineBreaks = /[ \t]*\r?\n\s*/g;
/** Replaces a line break in text that is shown on one line. */
const LINE_BREAK = ' ↵ ';

/**
 * Returns the text on one line. It escapes characters that move a terminal's cursor, break the line,
 * change the direction of writing or are invisible. The output of plugins is shown only through this
 * function. JSON keeps its meaning.
 */
export function toVisibleText(text: string): string {
  const line = text.replaceAll(lineBreaks, LINE_BREAK);
  return line.replaceAll(unseen, (char) => short[char] ?? escapeUnicode(char));
}

/** Puts a message on one line, because messages are read in lists, in logs and inside JSON. */
export function joinLines(message: string): string {
  return message.includes('\n') ? message.trim().replaceAll(lineBreaks, ' ') : message;
}

/** Replaces escaped line breaks in JSON or inspected text that is shown to users. */
export function showEscapedBreaks(text: string): string {
  return text.replaceAll(/(?<!\\)((?:\\\\)*)(?:\\r)?\\n/g, `$1${LINE_BREAK}`);
}

function escapeUnicode(char: string): string {
  return char
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');
}

/** Returns the content of a quoted string in a header. Text without quotes is returned unchanged. */
export function unquote(text: string): string {
  const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(text)?.[1];
  return quoted === undefined ? text : quoted.replaceAll(/\\(.)/g, '$1');
}

/** Quotes an argument for a shell, so that text from outside can't become part of the command. */
export function quoteShell(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
