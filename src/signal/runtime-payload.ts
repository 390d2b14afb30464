const commonOfEnds = [
  'message',
  'next',
  'job_id',
  'plugin',
  'command',
  'status',
  'attempt',
  'parent_job_id',
  'submitted_by',
  'actor',
  // Only of plugins with `notify_on_complete`.
  'notify_on_complete',
  'text',
];

/**
 * The members of the payloads of Ductile's own signals, by the signal's type. A template for one of
 * these signals is checked against them before anything happens.
 */
export const runtimePayloadKeys: Readonly<Record<string, readonly string[]>> = {
  'job.dead': [...commonOfEnds, 'reason', 'error'],
  'job.succeeded': [...commonOfEnds, 'result'],
  'run.halted': ['message', 'next', 'run_id', 'pipeline', 'reason', 'halted_at_step', 'branches'],
  'run.awaiting_approval': [
    'message',
    'next',
    'run_id',
    'pipeline',
    'step',
    'step_id',
    'branch_id',
    'timeout_ms',
  ],
  'incident.opened': ['message', 'next', 'incident_id', 'kind', 'key', 'count', 'status', 'detail'],
  'incident.closed': ['message', 'next', 'incident_id', 'kind', 'key', 'count', 'status', 'detail'],
  'breaker.opened': ['message', 'plugin', 'command', 'from_state', 'failure_count', 'job_id'],
  'breaker.closed': ['message', 'plugin', 'command', 'from_state', 'failure_count', 'job_id'],
};
