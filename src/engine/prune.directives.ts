import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { duration } from '../base/fields.ts';
import { compact, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { formatDuration } from '../base/quantity.ts';
import type { Config } from '../config/config.ts';
import type { DirectiveExecution } from '../directive/define.service.ts';
import type { DirectiveContext } from './directive-context.ts';
import {
  defineBareDirective,
  defineDirective,
  directiveIdField,
} from '../operation/define-directive.ts';
import { historyKinds, type HistoryKind } from '../job/bulk.ts';
import { pruneKind, RETENTION, retentionOf } from '../job/prune.service.ts';

const kindsField = z
  .array(z.enum(historyKinds))
  .min(1)
  .optional()
  .describe('only these kinds of rows');

export const pruneDirective = defineDirective({
  type: 'system.prune',
  summary: 'Delete history that is past its retention, or older than told.',
  lasting: 'What is deleted cannot be brought back but from a backup.',
  scope: 'system:rw',
  // A second run deletes only what is left.
  isRepeatable: true,
  isResumable: true,
  params: z
    .strictObject({
      what: kindsField,
      older_than_ms: z.int().min(0).max(limits.delayMsMax).optional(),
    })
    .refine(({ what, older_than_ms: age }) => age === undefined || what !== undefined, {
      path: ['what'],
      error: 'must be named when it is not the retention of the configuration that counts',
    }),
  sameness: () => 'each',
  target: ({ what = ['*'] }) => what.join(','),
  plan: planPrune,
  execute: pruneAll,
  operation: {
    effect: 'destroy',
    input: z.strictObject({
      what: kindsField,
      older_than: duration({ minMs: 0, maxMs: limits.delayMsMax })
        .optional()
        .describe('in place of the retention of the configuration; needs --what'),
    }),
    output: z.object({
      directive_id: directiveIdField,
      rows: z.record(z.string(), z.int()).describe('how many of each kind were deleted'),
    }),
    errors: ['FORBIDDEN', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
    http: { method: 'POST', path: '/system/prune' },
    cli: {
      examples: [
        'ductile system prune --dry-run',
        'ductile system prune --what signals,attempts --older-than 7d',
      ],
    },
    toParams: (_context, { what, older_than: age }) => compact({ what, older_than_ms: age }),
  },
});

/** It needs no approval. */
export const retentionDirective = defineBareDirective({
  type: RETENTION,
  summary: 'Delete history that is past its retention, as configured.',
  scope: 'system:rw',
  isRepeatable: true,
  isResumable: true,
  isImmediate: true,
  params: z.strictObject({}),
  sameness: () => 'each',
  target: () => 'retention',
  plan: planPrune,
  execute: pruneAll,
});

/** The kinds of rows to delete (default: all), and the age that replaces the configured retention. */
interface PruneChoice {
  readonly what?: readonly HistoryKind[] | undefined;
  readonly older_than_ms?: number | undefined;
}

async function planPrune(
  { ledger, config }: DirectiveContext,
  choice: PruneChoice,
): Promise<string[]> {
  const lines: string[] = [];
  for (const { what, olderThanMs } of agesOf(config, choice)) {
    const limit = limits.countRowsMax;
    const found = await ledger.history.countPrunable({ what, olderThanMs, limit });
    if (found === 0) continue;
    const rows = found === limit ? `At least ${found}` : `${found}`;
    lines.push(`${rows} of ${what} would be deleted, past ${formatDuration(olderThanMs)}.`);
  }
  return lines.length === 0 ? ['Nothing is that old; nothing would change.'] : lines;
}

/** Deletes everything that is old enough, in small steps, so that other writes never wait long. */
async function pruneAll(
  { ledger, config }: DirectiveContext,
  choice: PruneChoice,
  { signal }: DirectiveExecution,
): Promise<JsonObject> {
  const rows: Record<string, number> = {};
  for (const { what, olderThanMs } of agesOf(config, choice)) {
    if (signal.aborted) throw new DuctileError('STOPPING', `stopped before ${what}`);
    const deleted = await pruneKind(ledger, what, olderThanMs, signal);
    if (deleted > 0) rows[what] = deleted;
  }
  return { rows };
}

function agesOf(
  config: Config,
  { what = historyKinds, older_than_ms: age }: PruneChoice,
): { readonly what: HistoryKind; readonly olderThanMs: number }[] {
  const retention = retentionOf(config);
  return what.map((kind) => ({ what: kind, olderThanMs: age ?? retention[kind] }));
}
