import type { Timestamp } from '../base/clock.ts';
import { limits } from '../base/limits.ts';
import { maskText } from '../base/secrets.ts';
import type { Config } from '../config/config.ts';
import type { Ledger, LedgerSubset } from '../ledger/ledger.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { LiveFinding } from './finding.ts';

/** Everything that a finding can be found in. */
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

/** The parts of a finding that are the same each time it is found. */
export interface FindingGuide {
  /** A stable name, such as `run_halted`. */
  readonly kind: string;
  /** The problem that is reported, as a sentence. */
  readonly condition: string;
  /** Its place among others. The evidence can change it. */
  readonly rank: Pick<LiveFinding, 'severity' | 'category' | 'impact' | 'repair'>;
  /** The remedy, as a sentence. */
  readonly fix: string;
  /** The command that resolves it most often. The finding itself names the objects. */
  readonly command: string;
  /**
   * The end of its incident: `found` while it is found, `success` until a job succeeds, `quiet` after
   * a while without another event. Without it, the finding opens no incident.
   */
  readonly incident?: 'found' | 'success' | 'quiet';
  /** A running service detects it. The checks read it from the open incidents. */
  readonly isObserved?: true;
  /** Only `why` and `system selfcheck` have its evidence, so `doctor` can't report it. */
  readonly isHold?: true;
  /** An operator can acknowledge it. After that, only new events count. */
  readonly isAcknowledgeable?: true;
}

/** The parts of a finding that depend on its evidence. They replace those of the guide. */
type FindingDescription = Omit<LiveFinding, 'kind' | 'severity' | 'category' | 'fix'> &
  Partial<Pick<LiveFinding, 'severity' | 'category' | 'fix'>>;

interface FindingDraft<Evidence> extends FindingGuide {
  /**
   * Finds the problem on a ledger. It costs a bounded number of index-backed reads, because the
   * incident watcher runs it every few seconds. Without it, other features have the evidence.
   */
  readonly find?: (context: CheckContext) => Promise<readonly Evidence[]>;
  readonly describe: (evidence: Evidence) => FindingDescription;
}

/** A kind of problem: its condition, its words and its remedy, for every feature that shows it. */
export interface FindingDefinition<Evidence> extends FindingGuide {
  readonly describe: (evidence: Evidence) => LiveFinding;
  /** Finds and describes the problem on a ledger. */
  readonly check: (context: CheckContext) => Promise<LiveFinding[]>;
}

/** Defines a finding. Add it to `findings/all.ts`, and every feature and the reference page have it. */
export function defineFinding<Evidence>({
  find,
  describe: describeParts,
  ...guide
}: FindingDraft<Evidence>): FindingDefinition<Evidence> {
  const { kind, rank, fix } = guide;
  const common = { kind, ...rank, fix };
  const describe = (evidence: Evidence): LiveFinding => ({ ...common, ...describeParts(evidence) });
  return {
    ...guide,
    describe,
    check: async (context) => ((await find?.(context)) ?? []).map(describe),
  };
}

/** Shares a read between the findings that need it. Each round of checks has a context of its own. */
export function shareReading<T>(
  read: (context: CheckContext) => Promise<T>,
): (context: CheckContext) => Promise<T> {
  const readings = new WeakMap<CheckContext, Promise<T>>();
  return (context) => {
    const reading = readings.get(context) ?? read(context);
    readings.set(context, reading);
    return reading;
  };
}

/** Reads the open incidents. */
export const listOpenIncidents = shareReading(({ ledger }) =>
  ledger.incidents.list({ isOpen: true, limit: limits.pageRowsMax }),
);

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
