import type { Timestamp } from '../base/clock.ts';
import { limits } from '../base/limits.ts';
import { maskText } from '../base/secrets.ts';
import type { Config } from '../config/config.ts';
import type { Ledger, LedgerSubset } from '../ledger/ledger.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { LiveFinding } from './finding.ts';

/** Everything that a check can read. */
export interface CheckContext {
  readonly ledger: Ledger;
  readonly config: Config;
  /** Undefined if the plugins can't be read. That is another finding. */
  readonly catalog: Catalog | undefined;
  /** The database's time. */
  readonly now: Timestamp;
  /** Ids of the credential keys that this process has. Undefined if they weren't read. */
  readonly keyIds: readonly string[] | undefined;
  /** False for a tenant's ledger, where findings about the whole machine are left out. */
  readonly isRoot: boolean;
  /**
   * When an operator acknowledged a finding, by its id. Objects that ended before that moment are no
   * longer part of the finding. `findLiveFindings` reads it.
   */
  readonly acknowledged?: ReadonlyMap<string, Timestamp> | undefined;
}

/**
 * Looks for one kind of problem. Each check costs a bounded number of index-backed reads, because the
 * incident watcher runs all of them every few seconds.
 */
export type Check = (context: CheckContext) => Promise<LiveFinding[]>;

/** The job or run that a text comes from. */
interface TextSource {
  readonly sourceEventId?: string | null | undefined;
  readonly runId?: string | null | undefined;
}

/**
 * Masks an error or a question for evidence. Every reader can see incidents, so a text that can come
 * from an admin-only signal is left out.
 */
export async function showText(
  ledger: LedgerSubset<'runs.find' | 'signals.list' | 'runs.listWaitedSignals'>,
  text: string | null,
  { sourceEventId, runId }: TextSource,
): Promise<string> {
  if (text === null) return 'no text was recorded';
  const ids = [sourceEventId ?? [], await readSignalIds(ledger, runId)].flat();
  for (const id of ids) {
    const [signal] = await ledger.signals.list({ id, limit: 1 });
    if (signal?.visibility === 'admin_only') return 'only administrators see the text';
  }
  return maskText(text);
}

/** Lists the signals whose data a run can contain: the one that started it, and those it waited for. */
async function readSignalIds(
  ledger: LedgerSubset<'runs.find' | 'runs.listWaitedSignals'>,
  runId: string | null | undefined,
): Promise<string[]> {
  if (runId === null || runId === undefined) return [];
  const [run, waited] = await Promise.all([
    ledger.runs.find(runId),
    ledger.runs.listWaitedSignals(runId),
  ]);
  return [run?.sourceEventId ?? [], waited].flat();
}

/** The type of the directive that acknowledges a finding. */
export const ACKNOWLEDGE = 'incident.acknowledge';

/** Reads when each finding was acknowledged last, by its id. The directives themselves are the record. */
export async function readAcknowledged(
  ledger: LedgerSubset<'directives.page'>,
): Promise<ReadonlyMap<string, Timestamp>> {
  const { rows } = await ledger.directives.page({
    type: ACKNOWLEDGE,
    status: ['completed'],
    limit: limits.acknowledgementsMax,
  });
  const newestLast = rows.toReversed().flatMap(({ target, completedAt }) => {
    const id = target.slice(target.indexOf(':') + 1);
    return completedAt === null ? [] : [[id, completedAt] as const];
  });
  return new Map(newestLast);
}
