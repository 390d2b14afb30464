/** Where in [0, 1) a text falls: the same on every host, and unlike for texts that are alike. */
export function fractionOf(text: string): number {
  return hash(text, 0x811c9dc5) / 2 ** 32;
}

/** A short name of a text, for telling versions of it apart; no protection against malice. */
export function digestOf(text: string): string {
  return [0x811c9dc5, 0x9747b28c]
    .map((seed) => hash(text, seed).toString(16).padStart(8, '0'))
    .join('');
}

/** FNV-1a over the UTF-16 units, stirred at the end so that the last ones reach every bit. */
function hash(text: string, seed: number): number {
  let value = seed;
  for (let at = 0; at < text.length; at += 1) {
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  }
  value = Math.imul(value ^ (value >>> 16), 0x7feb352d);
  value = Math.imul(value ^ (value >>> 15), 0x846ca68b);
  return (value ^ (value >>> 16)) >>> 0;
}
