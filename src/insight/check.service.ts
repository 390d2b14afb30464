import type { Timestamp } from '../base/clock.ts';
import type { Config } from '../config/config.ts';
import type { Ledger, LedgerSubset } from '../ledger/ledger.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { LiveFinding } from './finding.ts';
import { maskText } from '../base/secrets.ts';

/** What a check may look at. */
export interface CheckContext {
  readonly ledger: Ledger;
  readonly config: Config;
  /** Undefined when the plugins can't be read; that is another finding. */
  readonly catalog: Catalog | undefined;
  /** The database's time. */
  readonly now: Timestamp;
  /** Ids of the credential keys that this process can open; undefined where they weren't read. */
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
 * Looks for one kind of trouble. Each check costs a bounded number of index-backed reads, because the
 * incident watcher runs all of them every few seconds.
 */
export type Check = (context: CheckContext) => Promise<LiveFinding[]>;

/** A job, or a run or a part of it. */
export interface TextSource {
  readonly sourceEventId?: string | null | undefined;
  readonly runId?: string | null | undefined;
}

/**
 * Masks an error or a question for evidence. Incidents are stored for every reader, so a text that
 * comes from a signal for administrators alone is left out.
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

/** The signals whose data a run has: the one that started it, and those that it waited for. */
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
