/** The explanation of one kind of finding for operators. */
interface KindGuide {
  /** Its meaning, in one sentence. */
  readonly meaning: string;
  /** The command that resolves it most often. The finding itself names the objects. */
  readonly command: string;
}

/**
 * Every kind of finding and incident, for the start page of operators and agents. A test checks that
 * no kind is missing. `tools/generate` writes the page.
 */
export const kindGuides: Readonly<Record<string, KindGuide>> = {
  approval_waiting: {
    meaning: 'A run waits for a person to approve or reject a step.',
    command: 'ductile run approve RUN STEP',
  },
  breaker_open: {
    meaning: 'A command failed so often in a row that its jobs are held back.',
    command: 'ductile system reset PLUGIN',
  },
  call_refused: {
    meaning: 'A token lacked a scope or was not valid in the last hour.',
    command: 'ductile token create NAME --scopes SCOPE',
  },
  check_failed: {
    meaning: 'A check of doctor could not run, so its findings are unknown.',
    command: 'ductile doctor',
  },
  config_changed: {
    meaning: 'The configuration files differ from what the service uses.',
    command: 'ductile config diff',
  },
  crash_loop: {
    meaning: 'The service crashed again and again while the same job was running.',
    command: 'ductile job cancel JOB',
  },
  credential_key_missing: {
    meaning: 'Stored credentials are sealed with a key that this service does not have.',
    command: 'ductile credential list',
  },
  credential_missing: {
    meaning: 'The configuration names a credential that does not exist.',
    command: 'ductile credential set NAME',
  },
  disk_full: {
    meaning: 'The disk of the database is nearly full.',
    command: 'ductile system prune --dry-run',
  },
  failure_streak: {
    meaning: 'The last jobs of a command all failed.',
    command: 'ductile why JOB',
  },
  hops_limit: {
    meaning: 'Events caused each other too many times, as routes in a circle do.',
    command: 'ductile job tree JOB',
  },
  installation_unmatched: {
    meaning: 'What an installed package watches has never matched anything.',
    command: 'ductile package show PACKAGE',
  },
  job_dead: {
    meaning: 'A job failed for good: no attempt is left.',
    command: 'ductile job retry JOB',
  },
  job_overlong: {
    meaning: 'A job holds a key or a worker slot far longer than usual.',
    command: 'ductile job cancel JOB',
  },
  key_held: {
    meaning: 'A run holds a concurrency key far longer than usual, and others wait for it.',
    command: 'ductile run cancel RUN',
  },
  ledger_damaged: {
    meaning: 'The database does not match its indexes.',
    command: 'ductile system check',
  },
  lock_held: {
    meaning: 'Another process has the database, with another configuration or without a heartbeat.',
    command: 'ductile system status',
  },
  paused: {
    meaning: 'An operator paused, disabled or suspended a part, or the whole service.',
    command: 'ductile system resume',
  },
  payload_key_missing: {
    meaning: 'Masked payloads of old signals are sealed with a key that is missing.',
    command: 'ductile credential list',
  },
  plugin_env_missing: {
    meaning: 'A plugin fails because Ductile does not pass an environment variable on to it.',
    command: 'ductile config set service.plugin_env_passthrough',
  },
  plugin_not_loaded: {
    meaning: 'A plugin could not be loaded, and its jobs wait.',
    command: 'ductile config check',
  },
  plugin_not_reloaded: {
    meaning: 'The service started without a plugin that could be loaded now.',
    command: 'ductile system reload',
  },
  plugin_not_set_up: {
    meaning: 'The setup (init) of a plugin failed, and its jobs wait.',
    command: 'ductile plugin init PLUGIN',
  },
  poison_job: {
    meaning: 'A job was running each time the service crashed.',
    command: 'ductile why JOB',
  },
  queue_stalled: {
    meaning: 'Jobs are ready, and none has started for a while.',
    command: 'ductile queue list',
  },
  run_halted: {
    meaning: 'A run stopped at a step that failed.',
    command: 'ductile run revive RUN',
  },
  schedule_always_skipped: {
    meaning: 'The last due times of a schedule all passed without a job.',
    command: 'ductile why PLUGIN/SCHEDULE',
  },
  schedule_never_fires: {
    meaning: 'A schedule has no due time ahead and has never fired.',
    command: 'ductile schedule preview',
  },
  schedule_overdue: {
    meaning: 'A schedule was due and has not started its job.',
    command: 'ductile why PLUGIN/SCHEDULE',
  },
  work_suppressed: {
    meaning: 'A dedupe key dropped requests whose payloads differ, so it is too wide.',
    command: 'ductile why JOB',
  },
};
