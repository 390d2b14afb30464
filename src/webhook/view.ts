import type { JsonOutput } from '../operation/define.ts';
import { showCell } from '../cli/print.ts';
import type { Printer } from '../cli/print.ts';
import { listOf, showPairs, listStartedWork } from '../cli/view-parts.ts';
import type { ResultView } from '../cli/view-parts.ts';

export const webhookViews: Readonly<Record<string, ResultView>> = {
  'webhook.delivery': showDelivery,
  'webhook.show': showWebhook,
};

/** Shows a dash for a webhook without deliveries or errors. */
function showWebhook(output: JsonOutput, printer: Printer): void {
  const { last_triggered_at: triggeredAt, last_error: error } = output;
  const last = { last_triggered_at: triggeredAt ?? '-', last_error: error ?? '-' };
  showPairs({ ...output, ...last }, printer);
}

function showDelivery(output: JsonOutput, printer: Printer): void {
  printer.pairs([
    ['delivery', output['delivery_id']],
    ['webhook', output['hook_id']],
    ['verdict', output['verdict']],
    ['status', output['status']],
    ['reason', output['reason']],
    ['source', output['source']],
    ["sender's own id", output['sender_id']],
    ['bytes', output['body_bytes']],
    ['received', output['received_at']],
    ['duplicates', output['duplicates']],
    ['signal', output['signal_id']],
  ]);
  const headers = listOf(output['headers']).map((pair) => listOf(pair).map(showCell).join(': '));
  printer.block('headers', headers.join('\n'));
  listStartedWork(output, printer);
}
