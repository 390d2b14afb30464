import type { Config } from '../config/config.ts';
import { keyText } from '../config/document.ts';
import { makeProblem, type Problem } from '../config/problem.ts';
import {
  explainCommand,
  explainScope,
  type ScopeFault,
  type Scoped,
} from './check-scopes.service.ts';

/** What is wrong with the access to the API that plugins are to have, and what is in vain about it. */
export function checkApiAccess(
  { plugins, api }: Config,
  known: Scoped,
): { readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] } {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  for (const [name, { apiAccess, enabled, place }] of Object.entries(plugins)) {
    if (apiAccess === undefined || !enabled) continue;
    const path = ['plugins', name, 'api_access'];
    for (const [index, scope] of apiAccess.scopes.entries()) {
      const toProblem = ({ message, hint }: ScopeFault): Problem =>
        makeProblem(
          apiAccess.places[index] ?? place,
          keyText([...path, 'scopes', index]),
          message,
          hint,
        );
      const fault = explainScope(scope, known);
      if (fault !== undefined) problems.push(toProblem(fault));
      const slip = explainCommand(scope, known);
      if (slip !== undefined) warnings.push(toProblem(slip));
    }
    if (api.enabled) continue;
    const message = 'is in vain: api.enabled is false, so its jobs get no token';
    warnings.push(makeProblem(place, keyText(path), message, 'Switch the API on, or remove it.'));
  }
  return { problems, warnings };
}
