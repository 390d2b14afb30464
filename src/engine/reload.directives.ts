import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { findReloadRefusal } from './reload.ts';

const resultShape = z.object({
  generation: z.int(),
  config_snapshot_id: z.string(),
  reloaded_at: z.string(),
  changes: z.array(z.string()),
});

/** Reloads only the process that got the request: each host has its own files. */
export const reloadDirective = defineDirective({
  type: 'config.reload',
  summary: 'Put the changed configuration and plugins in force, while work goes on.',
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
      generation: z.int().describe('1 from the start of the process, one more with each reload'),
      config_snapshot_id: z.string().describe('the record of what is in force now'),
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
      const message = length === 0 ? 'Nothing has changed.' : `${count} in force.`;
      return { status: 'ok' as const, ...reloaded, message };
    },
    checkPlan(plan) {
      // Scripts that check a configuration this way read the exit code.
      const refusal = findReloadRefusal(plan);
      if (refusal !== undefined) throw new DuctileError('RELOAD_REFUSED', refusal);
    },
  },
});
