import type { JsonOutput } from '../operation/define.ts';
import { showCell } from '../cli/print.ts';
import type { Printer } from '../cli/print.ts';
import { listOf, rowOf, showSection } from '../cli/view-parts.ts';
import type { ResultView } from '../cli/view-parts.ts';

/** Views of operations that change the system. */
export const controlViews: Readonly<Record<string, ResultView>> = {
  'directive.show': showDirective,
  'tenant.create': showTenantToken,
  'tenant.limit': showTenant,
  'tenant.show': showTenant,
  'tenant.token': showTenantToken,
  'token.create': showToken,
  'token.rotate': showToken,
  'webhook.add': showWebhookSecret,
  'webhook.rotate': showWebhookSecret,
  'plugin.health': showHealth,
  'jobs.cancel': showCancelled,
  'jobs.retry': showRetried,
  'breaker.list': listBreakers,
  'system.breaker': showBreakers,
  'system.reload': showReload,
  'system.reset': showReset,
};

function showDirective(output: JsonOutput, printer: Printer): void {
  const { error_kind: code, error_message: error } = output;
  printer.pairs([
    ['directive', output['directive_id']],
    ['type', output['type']],
    ['target', output['target']],
    ['status', output['status']],
    ['by', `${showCell(output['actor'])} (needs ${showCell(output['scope'])})`],
    ['waits', output['awaiting_approval'] === true ? 'for approval' : null],
    ['approved by', output['approved_by']],
    ['cancelled by', output['cancelled_by']],
    ['not before', output['run_at']],
    ['requested', output['requested_at']],
    ['started', output['started_at']],
    ['completed', output['completed_at']],
    ['params', filled(output['params'])],
    ['result', filled(output['result'])],
    ['error', code === null ? error : `${showCell(error)} (${showCell(code)})`],
  ]);
  printer.block('plan', listOf(output['plan']).map(String).join('\n'));
  showSection(printer, 'Signals', output['signals'], [
    ['OCCURRED', 'occurred_at'],
    ['TYPE', 'type'],
    ['ID', 'signal_id', 'detail'],
  ]);
  if (!printer.isVerbose) return;
  printer.pairs([
    ['process', output['process_id']],
    ['attempt', output['attempt']],
    ['progress', filled(output['progress'])],
    ['correlation', output['correlation_id']],
    ['causation', output['causation_id']],
    ['error details', filled(output['error_details'])],
    ['idempotency key', output['idempotency_key']],
  ]);
}

function showReload(output: JsonOutput, printer: Printer): void {
  printer.line(showCell(output['message']));
  for (const change of listOf(output['changes'])) printer.line(`  ${showCell(change)}`);
  printer.line(`Recorded as directive ${showCell(output['directive_id'])}.`);
  if (!printer.isVerbose) return;
  printer.pairs([
    ['generation', output['generation']],
    ['snapshot', output['config_snapshot_id']],
    ['since', output['reloaded_at']],
  ]);
}

function filled(value: unknown): unknown {
  return Object.keys(rowOf(value)).length === 0 ? null : value;
}

function showToken(output: JsonOutput, printer: Printer): void {
  const { name, token } = output;
  printer.pairs([
    ['name', name],
    ['role', output['role']],
    ['scopes', output['scopes']],
    ['expires', output['expires_at']],
    ['token', token],
  ]);
  if (token === null) {
    return printer.advise(
      'The token was created before and is not shown again. Use `ductile token rotate`.',
    );
  }
  printer.line('Save the token now. It is not shown again.');
}

function showWebhookSecret(output: JsonOutput, printer: Printer): void {
  const { secret = null, global_token: token = null, url } = output;
  printer.pairs([
    ['id', output['id']],
    ['address', url ?? output['path']],
    ['secret', secret],
    ['global token', token],
    ['directive', output['directive_id']],
  ]);
  if (secret !== null || token !== null) {
    printer.line('Save the secret now. It is not shown again.');
  }
  if (url !== null) return;
  printer.line('Nothing listens yet. Run the service with `webhooks.listen` or `api.enabled` set.');
}

function showTenantToken(output: JsonOutput, printer: Printer): void {
  const { token } = output;
  printer.pairs([
    ['tenant', output['slug']],
    ['status', output['status']],
    ['token name', output['token_name']],
    ['token', token],
    ['directive', output['directive_id']],
  ]);
  const lost = `ductile tenant token ${showCell(output['slug'])} NAME`;
  printer.advise(
    token === null
      ? `The token was created before and is not shown again. Create another: \`${lost}\``
      : 'Save the token now. It is not shown again.',
  );
}

function showTenant(output: JsonOutput, printer: Printer): void {
  const { limits, ...rest } = output;
  const set = Object.entries(rowOf(limits)).filter(([, most]) => most !== null);
  const words = set.map(([name, most]) => `${name.replaceAll('_', ' ')} ${showCell(most)}`);
  printer.pairs([
    ...Object.entries(rest).map(([name, value]) => [name.replaceAll('_', ' '), value] as const),
    ['limits', words.length === 0 ? 'none' : words.join(', ')],
  ]);
}

function showHealth(output: JsonOutput, printer: Printer): void {
  const duration = output['duration_ms'];
  const init = rowOf(output['init']);
  const reason = init['reason'] === null ? '' : `: ${showCell(init['reason'])}`;
  printer.pairs([
    ['plugin', output['plugin']],
    ['status', output['status']],
    ['reason', output['reason']],
    ['result', rowOf(output['result'])['result'] ?? output['result']],
    ['took', typeof duration === 'number' ? `${duration}ms` : null],
    ['setup', output['init'] === null ? null : `${showCell(init['status'])}${reason}`],
    ['job', output['job_id']],
  ]);
}

function showCancelled({ jobs, cancelled, requested, unchanged }: JsonOutput, printer: Printer) {
  if (jobs === 0) return printer.line('No jobs match. Nothing was changed.');
  printer.line(
    `${countJobs(jobs)}: ${showCell(cancelled)} cancelled, ${showCell(requested)} asked to stop`,
  );
  if (unchanged !== 0) printer.line(`${showCell(unchanged)} had already ended.`);
}

function showRetried(output: JsonOutput, printer: Printer): void {
  const { jobs, queued, under_way: underWay, unknown_plugin: unknown, run_step: steps } = output;
  if (jobs === 0 && unknown === 0 && (steps ?? 0) === 0)
    return printer.line('No jobs match. Nothing was changed.');
  printer.line(`${countJobs(jobs)}: ${showCell(queued)} queued again`);
  if (underWay !== 0) printer.line(`${showCell(underWay)} are already in progress.`);
  if (unknown !== 0) printer.line(`${showCell(unknown)} belong to plugins that no longer exist.`);
  if (steps !== 0 && steps !== undefined)
    printer.advise(`${showCell(steps)} are steps of runs. Use \`ductile run revive\` for them.`);
}

function countJobs(count: unknown): string {
  return count === 1 ? '1 job' : `${showCell(count)} jobs`;
}

function showBreakers(output: JsonOutput, printer: Printer): void {
  showBreakerTable(output, printer);
  showSection(printer, 'History', output['transitions'], [
    ['WHEN', 'created_at'],
    ['PLUGIN', 'plugin'],
    ['COMMAND', 'command'],
    ['FROM', 'from_state'],
    ['TO', 'to_state'],
    ['REASON', 'reason'],
    ['JOB', 'job_id'],
  ]);
  adviseReset(output, printer);
}

function listBreakers(output: JsonOutput, printer: Printer): void {
  showBreakerTable(output, printer);
  adviseReset(output, printer);
}

function showBreakerTable(output: JsonOutput, printer: Printer): void {
  printer.table(
    listOf(output['breakers'])
      .map(rowOf)
      .map((row) => ({
        ...row,
        failures: `${showCell(row['failure_count'])} of ${showCell(row['threshold'])}`,
      })),
    {
      columns: [
        ['PLUGIN', 'plugin'],
        ['COMMAND', 'command'],
        ['STATE', 'state'],
        ['FAILURES', 'failures'],
        ['OPENED', 'opened_at'],
        ['LAST FAILURE', 'last_failure_at'],
        ['LAST JOB', 'last_job_id', 'detail'],
      ],
      empty: 'There are no breakers yet, because no such scheduled command has run.',
    },
  );
}

function adviseReset(output: JsonOutput, printer: Printer): void {
  const open = listOf(output['breakers'])
    .map(rowOf)
    .find(({ state }) => state === 'open');
  if (open === undefined) return;
  printer.line();
  printer.advise(`To close it, run \`ductile breaker reset ${showCell(open['plugin'])}\`.`);
}

function showReset({ plugin, reset }: JsonOutput, printer: Printer): void {
  const closed = listOf(reset);
  if (closed.length === 0) return printer.line(`No breaker of ${showCell(plugin)} was open.`);
  printer.line(`closed: ${showCell(closed)}`);
}
