/** How wide a text is drawn. */
export type Ruler = (text: string) => number;

/** As much of a text as there is room for; nothing when not even its beginning fits. */
export function fit(text: string, room: number, ruler: Ruler): string {
  if (ruler(text) <= room) return text;
  const chars = Array.from(text);
  let most = 0;
  for (let least = 1, end = chars.length; least <= end;) {
    const middle = Math.floor((least + end) / 2);
    const isFitting = ruler(cut(chars, middle)) <= room;
    if (isFitting) most = middle;
    if (isFitting) least = middle + 1;
    else end = middle - 1;
  }
  return most === 0 ? '' : cut(chars, most);
}

/** The first of these that has room; where none has, as much of the last as is worth reading. */
export function fitFirst(texts: readonly string[], room: number, ruler: Ruler): string {
  const whole = texts.find((text) => ruler(text) <= room);
  if (whole !== undefined) return whole;
  const short = fit(texts.at(-1) ?? '', room, ruler);
  return Array.from(short).length < CHARS_LEAST ? '' : short;
}

const CHARS_LEAST = 5;

function cut(chars: readonly string[], count: number): string {
  return `${chars.slice(0, count).join('')}…`;
}
