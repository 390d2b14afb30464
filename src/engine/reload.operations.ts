import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { findReloadRefusal } from './reload.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective } from '../directive/request.operations.ts';

export const systemReload = defineOperation({
  name: 'system.reload',
  summary: 'Put the changed configuration and plugins in force, while work goes on.',
  effect: 'write',
  isForRoot: true,
  scope: 'system:rw',
  needs: 'server',
  input: z.strictObject({}),
  output: z.object({
    status: z.literal('ok'),
    generation: z.int().describe('1 from the start of the process, one more with each reload'),
    config_snapshot_id: z.string().describe('the record of what is in force now'),
    reloaded_at: z.string(),
    changes: z.array(z.string()),
    message: z.string(),
    directive_id: z.string().describe('the record of this change'),
  }),
  errors: [...directErrors, 'LEDGER_UNAVAILABLE', 'RELOAD_REFUSED', 'TENANT_NOT_ISOLATED'],
  http: { method: 'POST', path: '/system/reload' },
  cli: { examples: ['ductile system reload', 'ductile system reload --dry-run'] },
  async run(context) {
    const { id, result } = await direct(context, 'config.reload', {});
    const { generation, config_snapshot_id, reloaded_at, changes } = resultShape.parse(result);
    const message =
      changes.length === 0
        ? 'Nothing has changed.'
        : `${changes.length === 1 ? '1 change is' : `${changes.length} changes are`} in force.`;
    const what = { generation, config_snapshot_id, reloaded_at, changes, message };
    return { status: 'ok' as const, ...what, directive_id: id };
  },
  async plan(context) {
    const plan = await planDirective(context, 'config.reload', {});
    // Scripts that check a configuration this way read the exit code.
    const refusal = findReloadRefusal(plan);
    if (refusal !== undefined) throw new DuctileError('RELOAD_REFUSED', refusal);
    return plan;
  },
});

const resultShape = z.object({
  generation: z.int(),
  config_snapshot_id: z.string(),
  reloaded_at: z.string(),
  changes: z.array(z.string()),
});
