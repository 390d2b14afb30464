import * as z from 'zod';
import { isObject, type JsonObject } from '../base/json.ts';
import type { Context } from '../operation/context.ts';
import type { CompletedDirective } from '../operation/define-directive.ts';
import { directiveIdField } from '../operation/define-directive.ts';
import { textIn } from '../operation/request-directive.ts';

/** The output of operations that change an installation. */
export const installationChangeShape = z.object({
  installation_id: z.string(),
  package: z.string(),
  version: z.string(),
  provisioned: z.record(z.string(), z.int()).optional().describe('how many of each kind it brings'),
  webhooks: z
    .array(
      z.object({
        id: z.string(),
        path: z.string(),
        secret: z.string().nullable().describe('the one that was made for it, shown this once'),
      }),
    )
    .optional()
    .describe('those that it brings'),
  directive_id: directiveIdField,
});

export function showInstallationChange(
  _context: Context,
  { result }: Pick<CompletedDirective<unknown>, 'result'>,
): Omit<z.output<typeof installationChangeShape>, 'directive_id'> {
  const { provisioned } = result;
  return {
    installation_id: textIn(result, 'installation_id'),
    package: textIn(result, 'package_slug'),
    version: textIn(result, 'version'),
    ...(provisioned === undefined ? {} : { provisioned: provisioned as Record<string, number> }),
    ...showWebhooks(result),
  };
}

/** New secrets aren't recorded: only the first response contains them. */
function showWebhooks({ webhooks, secrets }: JsonObject) {
  if (!Array.isArray(webhooks)) return {};
  const ids = webhooks.filter((id) => typeof id === 'string');
  const newSecrets = isObject(secrets) ? secrets : {};
  return {
    webhooks: ids.map((id) => {
      const secret = newSecrets[id];
      return {
        id,
        path: `/hooks/${id}`,
        secret: typeof secret === 'string' ? secret : null,
      };
    }),
  };
}
