import type { Config } from '../config/config.ts';
import { toFinding, type Finding } from '../config/findings.ts';
import { describeInstallation, withInstallations } from '../config/installed.ts';
import { makeProblem } from '../config/problem.ts';
import { findStranded, findWebhookFaults, type Targets } from '../webhook/check-entry.service.ts';
import { checkPipelines } from '../pipeline/load.service.ts';
import type { InstallationRow } from '../package/types.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { WebhookRow } from '../webhook/types.ts';
import { readProvides } from '../package/package.ts';
import { loadCatalog } from '../plugin/catalog.ts';

/** Finds webhooks and packages that don't work; a tenant has them, too. */
export async function findOwnFaults(
  ledger: LedgerSubset<'installations.list' | 'webhooks.list'>,
  readTargets: (installations: readonly InstallationRow[]) => Targets | undefined,
): Promise<Finding[]> {
  const [installations, webhooks] = await Promise.all([
    ledger.installations.list({}),
    ledger.webhooks.list(),
  ]);
  const targets = webhooks.length === 0 ? undefined : readTargets(installations);
  return [
    ...(targets === undefined ? [] : findWebhooks(webhooks, targets)),
    ...installations.flatMap((row) => {
      if (row.lastError === null) return [];
      const message = `is installed and not in force: ${row.lastError}`;
      const hint = `Put right what it says, then \`ductile package enable ${row.slug}\`.`;
      const problem = makeProblem(describeInstallation(row), `package ${row.slug}`, message, hint);
      const finding = toFinding('error', 'packages', problem);
      const commands = [`ductile package enable ${row.slug}`];
      return [withParts(finding, 'package_inactive', row.slug, commands)];
    }),
  ];
}

/** Finds webhooks that can't start anything: of those without another fault, whose target is gone. */
function findWebhooks(webhooks: readonly WebhookRow[], targets: Targets): Finding[] {
  const faults = findWebhookFaults(webhooks, targets);
  const sound = webhooks.filter(({ id }) => !faults.has(id));
  return [
    ...[...faults].map(([id, { message, hint }]) => {
      const problem = makeProblem(`webhook ${id}`, `webhook ${id}`, message, hint);
      const commands = [`ductile webhook show ${id}`];
      return withParts(toFinding('error', 'webhooks', problem), 'webhook_fault', id, commands, id);
    }),
    ...[...findStranded(sound, targets)].map(([id, reason]) => {
      const message = `refuses every delivery: ${reason}`;
      const hint =
        'Put the target back into the configuration, then run `ductile system reload`. ' +
        `Or give it another target with \`ductile webhook edit ${id} --plugin <name>\`.`;
      const problem = makeProblem(`webhook ${id}`, `webhook ${id}`, message, hint);
      const commands = ['ductile system reload', `ductile webhook show ${id}`];
      return withParts(
        toFinding('error', 'webhooks', problem),
        'webhook_stranded',
        id,
        commands,
        id,
      );
    }),
  ];
}

/** Gives a finding on the ledger the parts that a check would give it. */
export function withParts(
  finding: Finding,
  kind: string,
  key: string,
  commands: readonly string[],
  /** What `why` explains; a service with another configuration knows the object, and not the finding. */
  why: string | null = null,
): Finding {
  const none = { since: null, count: 1, detail: null };
  const evidence = `${finding.key} ${finding.message}`;
  // A list of findings shows the message alone, so it names the object.
  const message = `${evidence.charAt(0).toUpperCase()}${evidence.slice(1)}`;
  return {
    ...finding,
    message,
    live: { id: `${kind}:${key}`, kind, impact: 1, evidence, commands, why, ...none },
  };
}

/** Compiles the pipelines of a configuration. */
export function makeTargets({ config, catalog }: Omit<Targets, 'pipelines'>): Targets {
  return { config, catalog, pipelines: checkPipelines(config.pipelines, catalog).pipelines };
}

/** What webhooks can start, with the parts of packages; undefined if it can't be read, which is another finding. */
export function targetsIn(
  files: Config,
  installations: readonly InstallationRow[],
): Targets | undefined {
  const installed = installations
    .filter(({ status, lastError }) => status !== 'disabled' && lastError === null)
    .map(({ id, slug, version, provisioned }) => {
      return { id, slug, version, provides: readProvides(provisioned) };
    });
  try {
    const config = withInstallations(files, installed);
    return makeTargets({ config, catalog: loadCatalog(config) });
  } catch {
    return undefined;
  }
}
