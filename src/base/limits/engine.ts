import { DAY, GIB, HOUR, MINUTE, SECOND } from '../quantity.ts';

/** Jobs and the services around them: processes, claims, attempts, directives, schedules, incidents. */
export const engineLimits = {
  /** How often each process sends a heartbeat. Setting: `service.heartbeat_interval`. */
  heartbeatMs: 5 * SECOND,
  /** The time without a heartbeat after which a process is presumed dead. Setting: `service.reap_after`. */
  reapAfterMs: 30 * SECOND,
  /** How long a directive may run in a process without heartbeats. */
  directiveOrphanMs: 1 * HOUR,
  /** How often a directive that is safe to repeat is started when its process dies. */
  directiveAttemptsMax: 3,
  /** Deferred directives that one check starts. */
  directivesStartedMax: 20,
  /** How long a claim stays valid after its timeout and kill grace. */
  claimSlackMs: 60 * SECOND,
  /** How often the dispatcher looks for work without being woken. Setting: `service.poll_interval`. */
  pollMs: 1 * SECOND,
  /** How long running attempts may continue when the service stops. Setting: `service.shutdown_timeout`. */
  shutdownMs: 30 * SECOND,
  /** Crashes of the service during one job before that job is dead. Setting: `service.max_crashes`. */
  crashesMax: 10,
  /** Crashes of the service in a row after which a job that was running counts as a suspect. */
  suspectAfter: 2,
  /** Failed attempts before a job ends. Setting: `plugins.<name>.retry.max_attempts`. */
  attemptsMax: 4,
  /** The base of the delay between two attempts. Setting: `plugins.<name>.retry.backoff_base`. */
  backoffBaseMs: 30 * SECOND,
  /** How long a job that succeeded holds its dedupe key. Setting: `service.dedupe_ttl`. */
  dedupeTtlMs: 24 * HOUR,
  /** The furthest time from now in a request: the delay of a job, the life of its key, its age. */
  delayMsMax: 10 * 365 * DAY,
  /** The longest duration in a configuration. Added to the current time it is still a valid date. */
  durationMsMax: 100 * 365 * DAY,
  /** The highest `--limit` of a bulk cancel or retry, and of a replay. */
  bulkJobsMax: 100_000,
  /** The jobs or signals of one bulk cancel, retry or replay. Setting: `--limit`. */
  bulkJobsDefault: 10_000,
  /** The jobs of a bulk cancel or retry that one transaction changes. */
  bulkStepJobs: 200,
  /**
   * How long a queued job waits for a process that knows its plugin before it is dead. Setting:
   * `service.runner_grace`.
   */
  runnerGraceMs: 1 * HOUR,
  /** How long a self-check may take before it reports what it has found so far. */
  selfcheckMs: 10 * SECOND,
  /** The longest wait of a timer. Node's timers overflow at 24.8 days and then fire at once. */
  timerMsMax: 24 * DAY,
  /** The shortest interval of a schedule. */
  scheduleMsMin: 100,
  /** The longest interval of a schedule. */
  scheduleMsMax: 3650 * DAY,
  /** How late a schedule may fire before the time counts as missed; at least one tick. */
  scheduleGraceMs: 1 * MINUTE,
  /** The delay before a schedule is checked again after a temporary failure. */
  scheduleRetryMs: 2 * SECOND,
  /** Missed times of one schedule that `catch_up: run_all` runs. */
  catchUpJobsMax: 100,
  /** Schedules that are processed in one turn of the event loop. */
  scheduleSliceMax: 25,
  /** Rows of one preview of schedules. */
  previewRowsMax: 1000,
  /** The longest time between two checks of the schedules. Setting: `service.tick_interval`. */
  tickMs: 60 * SECOND,
  /** Failures in a row that open a breaker. Setting: `plugins.<name>.circuit_breaker.threshold`. */
  breakerThreshold: 3,
  /** How long a breaker stays open. Setting: `plugins.<name>.circuit_breaker.reset_after`. */
  breakerResetAfterMs: 30 * MINUTE,
  /** The thresholds of incidents. */
  incident: {
    /** Failed jobs of a command in a row that open an incident. */
    streak: 5,
    /** How late a schedule opens an incident. */
    overdueMs: 2 * MINUTE,
    /** How long a queue with free workers stands still before it opens an incident. */
    stalledMs: 5 * MINUTE,
  },
  /** The checks for incidents. */
  incidentWatch: {
    /** How often incidents are checked. */
    everyMs: 15 * SECOND,
    /** How often an open incident is renewed. */
    renewMs: 1 * MINUTE,
    /** How long an incident without new events stays open. */
    quietMs: 1 * HOUR,
  },
  /** The checks of `doctor`. */
  checks: {
    /** Crashes during one job that are a finding. */
    crashesMin: 3,
    /** The time in which crashes during one job count. */
    crashWindowMs: 1 * HOUR,
    /** The latest attempts that the check of crashes reads. */
    attemptsRead: 100,
    /** The latest failures that the check of missing variables reads. */
    failuresRead: 20,
    /** The running jobs that the check of long jobs reads. */
    runningRead: 100,
    /** The shortest running time that is a finding. */
    overlongMinMs: 1 * MINUTE,
    /** The running time that is a finding if the usual one is unknown. */
    overlongUnknownMs: 30 * MINUTE,
    /** How many times the usual running time is a finding. */
    overlongFactor: 5,
    /** The fewest attempts from which a usual running time is known. */
    usualAttemptsMin: 3,
    /** The latest attempts from which the usual running time is computed. */
    usualAttemptsRead: 50,
    /** The latest successes that the check of missing variables reads. */
    successesRead: 20,
    /** Skipped times of a schedule in a row that are a finding. */
    skipsMin: 3,
    /** How long a schedule may have skipped all times in quiet hours before that is a finding. */
    quietMs: 2 * DAY,
    /** Different payloads that one dedupe key suppresses before that is a finding. */
    suppressedMin: 3,
    /** Successes of the plugin of a package without a matching event that are a finding. */
    unmatchedAttemptsMin: 10,
    /** How long an installation without a matching event is normal before its finding is a warning. */
    unmatchedMs: 1 * DAY,
    /** The changed keys of the configuration that a finding lists. */
    changedKeysMax: 20,
  },
  /** Counts of refused calls and suppressed jobs. */
  observations: {
    /** The time in which refused calls and suppressed jobs are counted. */
    windowMs: 1 * HOUR,
    /** The keys of each kind that are counted. */
    keysMax: 100,
    /** How often a process writes its counts. */
    flushMs: 2 * SECOND,
    /** The length of a counted key. */
    keyCharsMax: 200,
  },
  /** How often a continuing failure is logged, such as an unreachable database. */
  failureLogMs: 1 * MINUTE,
  /** How far back dead jobs and halted runs are findings. */
  findingLookBackMs: 7 * DAY,
  /** Objects of one group, such as the dead jobs of a plugin, that a check reads. */
  findingRowsMax: 500,
  /** Groups, such as plugins or pipelines, that one check reports. */
  findingGroupsMax: 50,
  /** Findings that `system status` shows. */
  findingsShownMax: 5,
  /** Ids that a finding lists. */
  findingIdsMax: 5,
  /** Acknowledgements that one check reads, the newest first. */
  acknowledgementsMax: 1000,
  /** The times of a schedule that are compared with quiet hours. */
  quietHoursPreview: {
    /** How far ahead the times of a schedule are compared with quiet hours. */
    daysMs: 8 * DAY,
    /** The fewest times that are compared with quiet hours. */
    timesMin: 5,
    /** The most times that are compared with quiet hours. */
    timesMax: 20_000,
  },
  /** A disk is nearly full if both the free part and the free bytes are below these. */
  diskNearlyFull: {
    /** The free part of a disk below which it counts as nearly full. */
    freePart: 0.05,
    /** The free space of a disk below which it counts as nearly full. Both values have to be undercut. */
    freeBytes: 2 * GIB,
  },
  /** Characters of the id of a finding. */
  findingIdCharsMax: 300,
  /** When a pause or a waiting approval becomes a warning. */
  pausedWarningMs: DAY,
} as const;
