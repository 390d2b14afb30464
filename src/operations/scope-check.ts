import { isNoun } from './scopes.ts';

/** Why a scope grants nothing; undefined when it means something. */
export function explainScope(scope: string, plugins: ReadonlySet<string>): string | undefined {
  if (scope === '*') return undefined;
  const [first = '', second = '', third, ...more] = scope.split(':');
  const shown = JSON.stringify(scope);
  if (more.length > 0 || second === '') return `has ${shown}, which is not a scope`;
  if (first === 'read') {
    const isKnown = third === undefined && (second === '*' || isNoun(second));
    return isKnown ? undefined : `has ${shown}, which is not a scope`;
  }
  const isAccess = ['ro', 'rw'].includes(third ?? second);
  if (isNoun(first)) return isAccess ? undefined : `has ${shown}, which is neither ro nor rw`;
  const isRule = ['allow', 'deny'].includes(second) && third !== undefined && third !== '';
  if (!(isRule || (isAccess && third === undefined))) return `has ${shown}, which is not a scope`;
  return plugins.has(first) ? undefined : `has ${shown}, but no plugin is configured as ${first}`;
}
