import type { FindingCategory } from '../../config/findings.ts';
import type { LiveFinding } from '../finding.ts';
import type { Context } from '../../operation/context.ts';
import { systemDoctor } from '../doctor.operations.ts';
import { findingsShape } from '../findings.service.ts';
import { allows } from '../../access/scopes.ts';
import { kindScopes } from './find-subject.ts';

/** Findings in files and settings have the id `<category>:<key>`, or the location in place of the key. */
const idPattern =
  /^(content|integrity|permissions|security|plugins|packages|routes|pipelines|schedules|webhooks|state):/;

/** Finds a finding of `doctor` that isn't on the ledger, by its id. */
export async function findFileFinding(
  context: Context,
  id: string,
): Promise<LiveFinding | undefined> {
  const { principal, engine } = context;
  const isAllowed = engine.tenant === undefined && allows(principal.scopes, kindScopes.finding);
  if (!idPattern.test(id) || !isAllowed) return undefined;
  const { findings } = findingsShape.parse(await systemDoctor.run(context, {}));
  const found = findings.find((finding) => finding.id === id);
  if (found === undefined) return undefined;
  const { severity, key, message, evidence, fix, commands } = found;
  return {
    kind: found.category,
    key: id.slice(id.indexOf(':') + 1),
    severity,
    category: found.category as FindingCategory,
    message: key === '' ? message : `${key} ${message}`,
    evidence: evidence ?? found.place,
    fix,
    commands,
  };
}
