import { formatDuration } from '../base/quantity.ts';
import { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Config } from '../config/config.ts';
import { history, pruneType, retentionType, type History, type PruneChoice } from './directives.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Asked, DirectiveDefinition } from '../directive/define.service.ts';
import { pruneKind } from './prune.service.ts';
import { retentionOf } from '../engine/rules.ts';

export interface PruneSeams {
  readonly ledger: Ledger;
  readonly config: () => Config;
}

export function pruneDirective(seams: PruneSeams): DirectiveDefinition<PruneChoice> {
  return {
    ...pruneType,
    plan: (choice) => planPrune(seams, choice),
    execute: (choice, asked) => pruneAll(seams, choice, asked),
  };
}

export function retentionDirective(seams: PruneSeams): DirectiveDefinition<object> {
  return {
    ...retentionType,
    plan: () => planPrune(seams, {}),
    execute: (_, asked) => pruneAll(seams, {}, asked),
  };
}

async function planPrune({ ledger, config }: PruneSeams, choice: PruneChoice): Promise<string[]> {
  const lines: string[] = [];
  for (const { what, olderThanMs } of agesOf(config(), choice)) {
    const limit = limits.countRowsMax;
    const found = await ledger.countPrunable({ what, olderThanMs, limit });
    if (found === 0) continue;
    const rows = found === limit ? `At least ${found}` : `${found}`;
    lines.push(`${rows} of ${what} would be deleted, past ${formatDuration(olderThanMs)}.`);
  }
  return lines.length === 0 ? ['Nothing is that old; nothing would change.'] : lines;
}

/** As much as there is, in small steps, so that work is never kept waiting by it. */
async function pruneAll(
  { ledger, config }: PruneSeams,
  choice: PruneChoice,
  { signal }: Asked,
): Promise<JsonObject> {
  const rows: Record<string, number> = {};
  for (const { what, olderThanMs } of agesOf(config(), choice)) {
    if (signal.aborted) throw new DuctileError('STOPPING', `stopped before ${what}`);
    const gone = await pruneKind(ledger, what, olderThanMs, signal);
    if (gone > 0) rows[what] = gone;
  }
  return { rows };
}

function agesOf(
  config: Config,
  { what = history, older_than_ms: age }: PruneChoice,
): { readonly what: History; readonly olderThanMs: number }[] {
  const retention = retentionOf(config);
  return what.map((kind) => ({ what: kind, olderThanMs: age ?? retention[kind] }));
}
