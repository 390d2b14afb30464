import * as z from 'zod';
import type { Ledger } from '../ledger/ledger.ts';
import type { Context } from '../operation/context.ts';
import {
  defineDirective,
  defineBareDirective,
  directiveIdField,
} from '../operation/define-directive.ts';
import { switchPause } from '../job/plugin-state.sql.ts';
import { DuctileError } from '../base/errors.ts';
import { duration } from '../base/fields.ts';
import { compact, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { formatDuration } from '../base/quantity.ts';
import type { Config } from '../config/config.ts';
import type { DirectiveExecution } from '../directive/define.service.ts';
import type { DirectiveContext } from './directive-context.ts';
import { historyKinds, type HistoryKind } from '../job/bulk.ts';
import { pruneKind, RETENTION, retentionOf } from '../job/prune.service.ts';
import { findReloadRefusal } from './reload.ts';

/** The state of the service process that responds. */
export const serviceStateShape = z.object({
  process_id: z.string(),
  state: z.enum(['stopped', 'starting', 'running', 'paused', 'degraded', 'stopping']),
  detail: z.string().nullable().describe('why it is degraded'),
});

export function showServiceState({ engine }: Context): z.output<typeof serviceStateShape> {
  const { processId, state, detail } = engine.status();
  return { process_id: processId, state, detail: detail ?? null };
}

const common = {
  scope: 'system:rw',
  params: z.strictObject({}),
  isForHandlers: true,
  sameness: () => 'toggle' as const,
  target: () => '',
} as const;

const commonOperation = {
  effect: 'write',
  output: serviceStateShape,
  errors: ['LEDGER_UNAVAILABLE'],
  toOutput: showServiceState,
} as const;

export const pauseSystemDirective = defineDirective({
  ...common,
  type: 'system.pause',
  summary:
    'Pause the service: no more jobs start. Running jobs continue, and new ones are accepted.',
  async plan({ ledger, services: { dispatcher } }) {
    if (await isPaused(ledger)) return ['The service is already paused; nothing would change.'];
    return [`No more jobs will start; ${dispatcher.running.length} running will continue.`];
  },
  prepare: () => ({ work: (tx) => switchPause(tx, true) }),
  after: ({ services: { pause } }) => pause.apply(),
  operation: {
    ...commonOperation,
    http: { method: 'POST', path: '/system/pause' },
    cli: { examples: ['ductile system pause'] },
  },
});

export const resumeSystemDirective = defineDirective({
  ...common,
  type: 'system.resume',
  summary: 'Start jobs again after a pause.',
  async plan({ ledger }) {
    if (!(await isPaused(ledger))) return ['The service is not paused; nothing would change.'];
    const { ready } = await ledger.jobs.countQueue();
    return [`Jobs will start again; ${ready} are ready.`];
  },
  prepare: () => ({ work: (tx) => switchPause(tx, false) }),
  after: ({ services: { pause } }) => pause.apply(),
  operation: {
    ...commonOperation,
    http: { method: 'POST', path: '/system/resume' },
    cli: { examples: ['ductile system resume'] },
  },
});

async function isPaused(ledger: Ledger): Promise<boolean> {
  return (await ledger.meta.read('paused')) === '1';
}

const kindsField = z
  .array(z.enum(historyKinds))
  .min(1)
  .optional()
  .describe('only these kinds of rows');

export const pruneDirective = defineDirective({
  type: 'system.prune',
  summary: 'Delete history that is past its retention, or older than an age that you set.',
  lasting: 'Deleted rows can be restored only from a backup.',
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
      error: 'is required if you set an age instead of the configured retention',
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
        .describe('minimum age of the rows (default: the configured retention); needs --what'),
    }),
    output: z.object({
      directive_id: directiveIdField,
      rows: z.record(z.string(), z.int()).describe('number of deleted rows of each kind'),
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
    lines.push(
      `${rows} rows of ${what} older than ${formatDuration(olderThanMs)} will be deleted.`,
    );
  }
  return lines.length === 0 ? ['No rows are old enough; nothing would change.'] : lines;
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

const resultShape = z.object({
  generation: z.int(),
  config_snapshot_id: z.string(),
  reloaded_at: z.string(),
  changes: z.array(z.string()),
});

/** Reloads only the process that got the request: each host has its own files. */
export const reloadDirective = defineDirective({
  type: 'config.reload',
  summary: 'Apply the changed configuration and plugins while the service keeps running.',
  scope: 'system:rw',
  ledgers: 'root',
  isImmediate: true,
  params: z.strictObject({}),
  sameness: () => 'each',
  target: () => '',
  plan: ({ services: { reloader } }) => reloader.plan(),
  async execute({ services: { reloader } }, _params, { actor }) {
    const { generation, snapshotId, reloadedAt, changes } = await reloader.reload(actor);
    return {
      generation,
      config_snapshot_id: snapshotId,
      reloaded_at: reloadedAt,
      changes: [...changes],
    };
  },
  operation: {
    name: 'system.reload',
    effect: 'write',
    isForRoot: true,
    needs: 'server',
    output: z.object({
      status: z.literal('ok'),
      generation: z.int().describe('1 when the process starts; each reload adds 1'),
      config_snapshot_id: z.string().describe('the snapshot of the active configuration'),
      reloaded_at: z.string(),
      changes: z.array(z.string()),
      message: z.string(),
      directive_id: directiveIdField,
    }),
    errors: ['LEDGER_UNAVAILABLE', 'RELOAD_REFUSED', 'TENANT_NOT_ISOLATED'],
    http: { method: 'POST', path: '/system/reload' },
    cli: { examples: ['ductile system reload', 'ductile system reload --dry-run'] },
    toOutput(_context, { result }) {
      const reloaded = resultShape.parse(result);
      const { length } = reloaded.changes;
      const count = length === 1 ? '1 change is' : `${length} changes are`;
      const message = length === 0 ? 'Nothing has changed.' : `${count} active.`;
      return { status: 'ok' as const, ...reloaded, message };
    },
    checkPlan(plan) {
      // Scripts that check a configuration this way read the exit code.
      const refusal = findReloadRefusal(plan);
      if (refusal !== undefined) throw new DuctileError('RELOAD_REFUSED', refusal);
    },
  },
});
