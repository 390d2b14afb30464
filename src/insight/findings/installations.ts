import { fromTimestamp, type Timestamp } from '../../base/clock.ts';
import { limits } from '../../base/limits.ts';
import { maskText } from '../../base/secrets.ts';
import { quoteShell } from '../../base/text.ts';
import type { InstallationRow } from '../../package/types.ts';
import type { LedgerSubset } from '../../ledger/ledger.ts';
import { readProvides } from '../../package/package.ts';
import { pluginSource } from '../../signal/signal.ts';
import type { Check } from '../check.service.ts';
import type { LiveFinding } from '../finding.ts';

/** Finds installed packages whose plugin runs and never emits the event that their routes wait for. */
export const findUnmatchedInstallations: Check = async ({ ledger, now }) => {
  const rows = await ledger.installations.list({});
  const found = await Promise.all(
    rows
      .filter(({ status }) => status === 'installed')
      .flatMap((row) => listWatches(row).map((watch) => checkWatch(ledger, row, watch, now))),
  );
  return found.flat();
};

/** A plugin of a package, and the event of it that the package waits for. */
interface PackageWatch {
  readonly plugin: string;
  readonly eventType: string;
}

/** Lists the events that the routes of an installation wait for from plugins of the same package. */
export function listWatches({ provisioned }: Pick<InstallationRow, 'provisioned'>): PackageWatch[] {
  const { plugins, routes } = readProvides(provisioned);
  return routes.flatMap(({ from, event_type: eventType }) =>
    typeof from === 'string' && typeof eventType === 'string' && from in plugins
      ? [{ plugin: from, eventType }]
      : [],
  );
}

const FIX =
  'Check what the package watches, such as its folder, pattern or address. ' +
  'Then correct that value in the JSON after `--with`.';

async function checkWatch(
  ledger: LedgerSubset<'attempts.list' | 'signals.page'>,
  row: InstallationRow,
  { plugin, eventType }: PackageWatch,
  now: Timestamp,
): Promise<LiveFinding[]> {
  // The read is bounded. If other plugins emit the same type very often, nothing is reported.
  const source = pluginSource(plugin);
  const { rows, next } = await ledger.signals.page({ type: eventType, source, limit: 1 });
  if (rows.length > 0 || next !== undefined) return [];
  const { unmatchedAttemptsMin, unmatchedMs } = limits.checks;
  const attempts = await ledger.attempts.list({
    plugin,
    status: 'succeeded',
    limit: unmatchedAttemptsMin,
  });
  const own = attempts.filter(({ completedAt }) => completedAt >= row.updatedAt);
  if (own.length < unmatchedAttemptsMin) return [];
  const { slug, updatedAt } = row;
  const shown = maskText(row.config);
  const isOld = fromTimestamp(now) - fromTimestamp(updatedAt) >= unmatchedMs;
  return [
    {
      kind: 'installation_unmatched',
      key: `${slug}/${plugin}`,
      // A quiet folder or page is normal for a while.
      severity: isOld ? 'warning' : 'info',
      category: 'packages',
      impact: 'item',
      message: `The package ${slug} never matched anything: ${plugin} emitted no ${eventType} yet.`,
      evidence: `${plugin} succeeded at least ${own.length} times since ${updatedAt}; it watches with ${shown}`,
      fix: FIX,
      commands: [
        `ductile package upgrade ${slug} --with ${quoteShell(shown)}`,
        `ductile package show ${slug}`,
      ],
      why: own[0]?.jobId,
      since: updatedAt,
      detail: { package: slug, plugin, event_type: eventType },
    },
  ];
}
