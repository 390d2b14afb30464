/** Measures the width of a text. */
export type Ruler = (text: string) => number;

/** Shortens a text to a width; empty if not even its first character fits. */
export function fit(text: string, maxWidth: number, ruler: Ruler): string {
  if (ruler(text) <= maxWidth) return text;
  const chars = Array.from(text);
  let most = 0;
  for (let least = 1, end = chars.length; least <= end;) {
    const middle = Math.floor((least + end) / 2);
    const isFitting = ruler(cut(chars, middle)) <= maxWidth;
    if (isFitting) most = middle;
    if (isFitting) least = middle + 1;
    else end = middle - 1;
  }
  return most === 0 ? '' : cut(chars, most);
}

/** Returns the first text that fits, or else the last one, shortened. */
export function fitFirst(texts: readonly string[], maxWidth: number, ruler: Ruler): string {
  const whole = texts.find((text) => ruler(text) <= maxWidth);
  if (whole !== undefined) return whole;
  const short = fit(texts.at(-1) ?? '', maxWidth, ruler);
  return Array.from(short).length < CHARS_MIN ? '' : short;
}

const CHARS_MIN = 5;

function cut(chars: readonly string[], count: number): string {
  return `${chars.slice(0, count).join('')}…`;
}
