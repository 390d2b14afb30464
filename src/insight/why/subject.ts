import { kinds, type Kind } from './explanation.ts';

/** What was asked about: a kind if it was said, and an id or a name. */
export interface SubjectName {
  readonly kind: Kind | 'any';
  readonly id: string;
}

const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
const attemptPattern = new RegExp(`^(${uuid})[-. #]\\d+$`, 'i');
const saidPattern = new RegExp(`^(${[...kinds, 'attempt'].join('|')})s?[ :]+(\\S.*)$`, 'i');

/**
 * Reads the names that people type and that Ductile prints: `job 0199a1b2`, `webhook:deploys`,
 * `feed poll`, and the id of an attempt, which is that of its job and a number.
 */
export function parseSubject(text: string, kind: Kind | 'any' = 'any'): SubjectName {
  const said = kind === 'any' ? saidPattern.exec(text) : null;
  const word = said?.[1]?.toLowerCase();
  const rest = (said?.[2] ?? text).trim();
  const attempt = attemptPattern.exec(rest);
  if (attempt?.[1] !== undefined) return { kind: 'job', id: attempt[1].toLowerCase() };
  if (word === 'attempt') return { kind: 'job', id: rest };
  const id = /^\S+ \S+$/.test(rest) ? rest.replace(' ', '/') : rest;
  return { kind: word === undefined ? kind : (word as Kind), id };
}

/** Whether a text can be an id, or the beginning of one. */
export function isIdLike(text: string): boolean {
  return /^[0-9a-f-]{4,36}$/i.test(text);
}

/** A name in two parts, such as `feed/poll`; one part stands for the first one. */
export function splitName(name: string): { readonly plugin: string; readonly part?: string } {
  const at = name.indexOf('/');
  return at === -1 ? { plugin: name } : { plugin: name.slice(0, at), part: name.slice(at + 1) };
}
