import type { DuctileError } from '../../base/errors.ts';
import { quoteShell } from '../../base/text.ts';
import { defineFinding } from '../define-finding.service.ts';

interface WebhookFault {
  readonly id: string;
  readonly fault: DuctileError;
}

export const webhookFault = defineFinding<WebhookFault>({
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

interface StrandedWebhook {
  readonly id: string;
  /** Why its target can't be started. */
  readonly reason: string;
}

export const webhookStranded = defineFinding<StrandedWebhook>({
  kind: 'webhook_stranded',
  condition:
    'The target of a webhook is not in the active configuration, so it refuses every delivery.',
  rank: { severity: 'error', category: 'webhooks' },
  fix: 'Put the target back into the configuration and reload it, or edit the webhook.',
  command: 'ductile webhook show WEBHOOK',
  describe: ({ id, reason }) => ({
    key: id,
    message: `The webhook ${id} refuses every delivery: ${reason}.`,
    evidence: 'the active configuration has no such target',
    commands: ['ductile system reload', `ductile webhook show ${quoteShell(id)}`],
    why: id,
  }),
});
