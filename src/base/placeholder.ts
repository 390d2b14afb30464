/** A part of a text that may contain `${NAME}` or `${NAME:-default}`. */
export type PlaceholderPart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'variable'; readonly name: string; readonly fallback: string | undefined }
  /** Starts like a placeholder and isn't one. */
  | { readonly kind: 'fault'; readonly text: string };

const variable = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}/y;
/** As much of a faulty placeholder as identifies it. */
const faulty = /\$\{[^{}\n]{0,40}\}?/y;

/**
 * Splits a text at its placeholders. `$${` is the literal text `${`. Anything else that starts with
 * `${` is a fault: left as it is, it would become the token or password that it should name.
 */
export function splitPlaceholders(text: string): PlaceholderPart[] {
  const parts: PlaceholderPart[] = [];
  let from = 0;
  while (from < text.length) {
    const at = text.indexOf('${', from);
    if (at === -1) break;
    if (at > from && text[at - 1] === '$') {
      parts.push({ kind: 'text', text: `${text.slice(from, at - 1)}\${` });
      from = at + 2;
      continue;
    }
    if (at > from) parts.push({ kind: 'text', text: text.slice(from, at) });
    const part = readPlaceholder(text, at);
    parts.push(part.found);
    from = part.end;
  }
  if (from < text.length) parts.push({ kind: 'text', text: text.slice(from) });
  return parts;
}

/** Whether a text contains a placeholder, valid or not, that isn't escaped. */
export function hasPlaceholder(text: string): boolean {
  return text.includes('${') && splitPlaceholders(text).some(({ kind }) => kind !== 'text');
}

/** Describes a `${` that doesn't start a placeholder, as the predicate of a key. */
export function describeFault(text: string, isSecret: boolean): string {
  // The text around a `${` in a secret may be part of the secret.
  const shown = isSecret || !/^[\w${}. -]+$/.test(text) ? '`${`' : `\`${text}\``;
  return `has ${shown}, which isn't a placeholder`;
}

export const PLACEHOLDER_HINT =
  'Write ${NAME} or ${NAME:-default} with letters, digits and _ in NAME, or $${ for the text ${ itself.';

function readPlaceholder(text: string, at: number): { found: PlaceholderPart; end: number } {
  variable.lastIndex = at;
  const match = variable.exec(text);
  if (match !== null) {
    const found = { kind: 'variable', name: match[1] ?? '', fallback: match[2] } as const;
    return { found, end: variable.lastIndex };
  }
  faulty.lastIndex = at;
  const [fault = '${'] = faulty.exec(text) ?? [];
  return { found: { kind: 'fault', text: fault }, end: at + fault.length };
}
