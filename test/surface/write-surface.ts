const sentences = new Set([
  'description',
  'summary',
  'cause',
  'hint',
  'title',
  'examples',
  'empty',
  'absent',
]);

/** Writes one line for each value below the keys that lead to it, so that a difference is readable. */
export function writeSurface(value: unknown): string {
  return `${listLines(value, '').join('\n')}\n`;
}

function listLines(value: unknown, indent: string): string[] {
  return Object.entries(value ?? {}).flatMap(([key, one]) => {
    if (sentences.has(key) && (typeof one === 'string' || key === 'examples')) return [];
    const short = writeShort(one);
    if (short !== undefined) return [`${indent}${key}: ${short}`];
    return [`${indent}${key}`, ...listLines(one, `${indent} `)];
  });
}

function writeShort(value: unknown): string | undefined {
  if (typeof value === 'function') return 'function';
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined';
  const inner = Object.values(value);
  const isList = Array.isArray(value) && inner.every((one) => typeof one !== 'object');
  return isList || inner.length === 0 ? JSON.stringify(value) : undefined;
}
