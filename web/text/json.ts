export type TokenKind = 'key' | 'text' | 'number' | 'word' | 'sign';

export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
}

const token =
  /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;

/** Splits formatted JSON into tokens of one color. */
export function tokens(printed: string): Token[] {
  const found: Token[] = [];
  let at = 0;
  const sign = (end: number): void => {
    if (end > at) found.push({ kind: 'sign', text: printed.slice(at, end) });
  };
  for (const match of printed.matchAll(token)) {
    const [whole, quoted, colon, number] = match;
    sign(match.index);
    if (quoted !== undefined) {
      found.push({ kind: colon === undefined ? 'text' : 'key', text: quoted });
      if (colon !== undefined) found.push({ kind: 'sign', text: colon });
    } else found.push({ kind: number === undefined ? 'word' : 'number', text: whole });
    at = match.index + whole.length;
  }
  sign(printed.length);
  return found;
}
