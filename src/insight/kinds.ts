/** What an operator is told about one kind of finding. */
export interface KindGuide {
  /** What it means, in one sentence. */
  readonly meaning: string;
  /** The command that resolves it most often; the finding itself names the objects. */
  readonly command: string;
}

/**
 * Every kind of finding and incident, for the page that operators and agents start with. A test checks
 * that no kind is missing; `tools/generate` writes the page.
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
  check_failed: {
    meaning: 'A check of doctor could not run, so its findings are unknown.',
    command: 'ductile doctor',
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
  job_dead: {
    meaning: 'A job failed for good: no attempt is left.',
    command: 'ductile job retry JOB',
  },
  ledger_damaged: {
    meaning: 'The database does not match its indexes.',
    command: 'ductile system check',
  },
  plugin_not_loaded: {
    meaning: 'A plugin could not be loaded, and its jobs wait.',
    command: 'ductile config check',
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
  schedule_overdue: {
    meaning: 'A schedule was due and has not started its job.',
    command: 'ductile why PLUGIN/SCHEDULE',
  },
};
