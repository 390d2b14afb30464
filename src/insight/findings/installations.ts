import { fromTimestamp } from '../../base/clock.ts';
import { limits } from '../../base/limits.ts';
import { maskText } from '../../base/secrets.ts';
import { quoteShell } from '../../base/text.ts';
import type { LedgerSubset } from '../../ledger/ledger.ts';
import { readProvides } from '../../package/package.ts';
import type { InstallationRow } from '../../package/types.ts';
import { pluginSource } from '../../signal/signal.ts';
import { defineFinding } from '../define-finding.service.ts';
import type { TenantRow } from '../../tenant/tenants.ts';

/** A plugin of a package, and the event of it that the package waits for. */
interface PackageWatch {
  readonly plugin: string;
  readonly eventType: string;
}

export const installationUnmatched = defineFinding({
  kind: 'installation_unmatched',
  condition: 'The plugin of a package runs, and never emits the event that its routes wait for.',
  rank: { severity: 'warning', category: 'packages', impact: 'item' },
  fix:
    'Check what the package watches, such as its folder, pattern or address. ' +
    'Then correct that value in the JSON after `--with`.',
  command: 'ductile package show PACKAGE',
  async find({ ledger, now }) {
    const rows = await ledger.installations.list({});
    const installed = rows.filter(({ status }) => status === 'installed');
    const found = await Promise.all(
      installed.flatMap((row) => listWatches(row).map((watch) => checkWatch(ledger, row, watch))),
    );
    return found.flat().map((unmatched) => ({ ...unmatched, now }));
  },
  describe({ row, plugin, eventType, attempts, jobId, now }) {
    const { slug, updatedAt } = row;
    const shown = maskText(row.config);
    const isOld = fromTimestamp(now) - fromTimestamp(updatedAt) >= limits.checks.unmatchedMs;
    return {
      key: `${slug}/${plugin}`,
      // A quiet folder or page is normal for a while.
      severity: isOld ? 'warning' : 'info',
      message: `The package ${slug} never matched anything: ${plugin} emitted no ${eventType} yet.`,
      evidence: `${plugin} succeeded at least ${attempts} times since ${updatedAt}; it watches with ${shown}`,
      commands: [
        `ductile package upgrade ${slug} --with ${quoteShell(shown)}`,
        `ductile package show ${slug}`,
      ],
      why: jobId,
      since: updatedAt,
      detail: { package: slug, plugin, event_type: eventType },
    };
  },
});

/** Lists the events that the routes of an installation wait for from plugins of the same package. */
export function listWatches({ provisioned }: Pick<InstallationRow, 'provisioned'>): PackageWatch[] {
  const { plugins, routes } = readProvides(provisioned);
  return routes.flatMap(({ from, event_type: eventType }) =>
    typeof from === 'string' && typeof eventType === 'string' && from in plugins
      ? [{ plugin: from, eventType }]
      : [],
  );
}

async function checkWatch(
  ledger: LedgerSubset<'attempts.list' | 'signals.page'>,
  row: InstallationRow,
  watch: PackageWatch,
) {
  const { plugin, eventType } = watch;
  // The read is bounded. If other plugins emit the same type very often, nothing is reported.
  const source = pluginSource(plugin);
  const { rows, next } = await ledger.signals.page({ type: eventType, source, limit: 1 });
  if (rows.length > 0 || next !== undefined) return [];
  const { unmatchedAttemptsMin } = limits.checks;
  const attempts = await ledger.attempts.list({
    plugin,
    status: 'succeeded',
    limit: unmatchedAttemptsMin,
  });
  const own = attempts.filter(({ completedAt }) => completedAt >= row.updatedAt);
  if (own.length < unmatchedAttemptsMin) return [];
  return [{ ...watch, row, attempts: own.length, jobId: own[0]?.jobId }];
}

export const packageInactive = defineFinding<Pick<InstallationRow, 'slug' | 'lastError'>>({
  kind: 'package_inactive',
  condition: 'A package is installed, and its parts could not be added to the configuration.',
  rank: { severity: 'error', category: 'packages' },
  fix: 'Fix what the message names, then enable the package.',
  command: 'ductile package enable PACKAGE',
  describe: ({ slug, lastError }) => ({
    key: slug,
    message: `The package ${slug} is installed and not active: ${lastError}`,
    evidence: `the last error of the package ${slug}`,
    commands: [`ductile package enable ${slug}`],
  }),
});

export const tenantClosed = defineFinding<Pick<TenantRow, 'slug' | 'schemaError'>>({
  kind: 'tenant_closed',
  condition: 'The ledger of a tenant cannot be opened.',
  rank: { severity: 'error', category: 'state' },
  fix: 'Ductile retries automatically. Run `ductile system migrate` to retry now.',
  command: 'ductile tenant show TENANT',
  describe: ({ slug, schemaError }) => ({
    key: slug,
    message: `The ledger of the tenant ${slug} can't be opened: ${schemaError}`,
    evidence: `the last attempt to open the ledger of ${slug}`,
    commands: ['ductile system migrate'],
  }),
});
