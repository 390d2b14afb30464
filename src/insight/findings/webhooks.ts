import type { DuctileError } from '../../base/errors.ts';
import { quoteShell } from '../../base/text.ts';
import { defineFinding } from '../define-finding.service.ts';

export const webhookFault = defineFinding<{ readonly id: string; readonly fault: DuctileError }>({
  kind: 'webhook_fault',
  condition: 'The settings of a webhook are invalid, so it refuses every delivery.',
  rank: { severity: 'error', category: 'webhooks' },
  fix: 'Correct the settings of the webhook.',
  command: 'ductile webhook show WEBHOOK',
  describe: ({ id, fault }) => ({
    key: id,
    message: `The webhook ${id} refuses every delivery: ${fault.message}`,
    evidence: fault.place ?? `the settings of the webhook ${id}`,
    fix: fault.hint,
    commands: [`ductile webhook show ${quoteShell(id)}`],
    why: id,
  }),
});

export const webhookStranded = defineFinding<{ readonly id: string; readonly reason: string }>({
  kind: 'webhook_stranded',
  condition:
    'The target of a webhook is not in the active configuration, so it refuses every delivery.',
  rank: { severity: 'error', category: 'webhooks' },
  fix: 'Put the target back into the configuration and reload it, or edit the webhook.',
  command: 'ductile webhook show WEBHOOK',
  describe: ({ id, reason }) => ({
    key: id,
    message: `The webhook ${id} refuses every delivery: ${reason}.`,
    evidence: `the target of the webhook ${id} is not in the active configuration`,
    commands: ['ductile system reload', `ductile webhook show ${quoteShell(id)}`],
    why: id,
  }),
});
