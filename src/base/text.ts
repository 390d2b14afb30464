const unseen = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;
const short: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * The text on one line, with everything escaped that would move a terminal's cursor, start a new
 * line or turn the direction of writing. What plugins say is shown only through this.
 */
export function visible(text: string): string {
  return text.replaceAll(unseen, (char) => short[char] ?? escapeUnicode(char));
}

function escapeUnicode(char: string): string {
  return `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`;
}
