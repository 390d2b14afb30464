import { maskText } from '../base/secrets.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';

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
