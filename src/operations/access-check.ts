import type { Config } from '../config/config.ts';
import { keyText } from '../config/document.ts';
import { makeProblem, type Problem } from '../config/problem.ts';
import { explainScope } from './scope-check.ts';

/** What is wrong with the access to the API that plugins are to have, and what is in vain about it. */
export function checkApiAccess(
  { plugins, api }: Config,
  known: ReadonlySet<string>,
): { readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] } {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  for (const [name, { apiAccess, enabled, place }] of Object.entries(plugins)) {
    if (apiAccess === undefined || !enabled) continue;
    const path = ['plugins', name, 'api_access'];
    for (const [index, scope] of apiAccess.scopes.entries()) {
      const message = explainScope(scope, known);
      if (message === undefined) continue;
      const key = keyText([...path, 'scopes', index]);
      const hint = 'See the page about tokens for what there is.';
      problems.push(makeProblem(apiAccess.places[index] ?? place, key, message, hint));
    }
    if (api.enabled) continue;
    const message = 'is in vain: api.enabled is false, so its jobs get no token';
    warnings.push(makeProblem(place, keyText(path), message, 'Switch the API on, or remove it.'));
  }
  return { problems, warnings };
}
