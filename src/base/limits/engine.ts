import { DAY, GIB, HOUR, MINUTE, SECOND } from '../quantity.ts';

/** Jobs and the services around them: processes, claims, attempts, directives, schedules, incidents. */
export const engineLimits = {
  heartbeatMs: 5 * SECOND,
  reapAfterMs: 30 * SECOND,
  /** How long a directive may run in a process without heartbeats. */
  directiveOrphanMs: 1 * HOUR,
  /** How often a directive that is safe to repeat is started when its process dies. */
  directiveAttemptsMax: 3,
  /** Deferred directives that one check starts. */
  directivesStartedMax: 20,
  /** How long a claim stays valid after its timeout and kill grace. */
  claimSlackMs: 60 * SECOND,
  /** How often the dispatcher looks for work without being woken. */
  pollMs: 1 * SECOND,
  shutdownMs: 30 * SECOND,
  /** Crashes of the service during one job before that job is dead. */
  crashesMax: 10,
  /** Crashes of the service in a row after which a job that was running counts as a suspect. */
  suspectAfter: 2,
  attemptsMax: 4,
  backoffBaseMs: 30 * SECOND,
  dedupeTtlMs: 24 * HOUR,
  /** The furthest time from now in a request: the delay of a job, the life of its key, its age. */
  delayMsMax: 10 * 365 * DAY,
  /** The longest duration in a configuration. Added to the current time it is still a valid date. */
  durationMsMax: 100 * 365 * DAY,
  /** Jobs of one bulk cancel or retry: the maximum, the default, and those of one transaction. */
  bulkJobsMax: 100_000,
  bulkJobsDefault: 10_000,
  bulkStepJobs: 200,
  /** How long a queued job waits for a process that knows its plugin before it is dead. */
  runnerGraceMs: 1 * HOUR,
  /** How long a self-check may take before it reports what it has found so far. */
  selfcheckMs: 10 * SECOND,
  /** The longest wait of a timer. Node's timers overflow at 24.8 days and then fire at once. */
  timerMsMax: 24 * DAY,
  /** The shortest and the longest interval of a schedule. */
  scheduleMsMin: 100,
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
  /** How often schedules are checked. */
  tickMs: 60 * SECOND,
  /** Failures in a row that open a breaker, and how long it stays open. */
  breakerThreshold: 3,
  breakerResetAfterMs: 30 * MINUTE,
  /** The thresholds of incidents, how often they are checked, and how long a quiet one stays open. */
  incident: { streak: 5, overdueMs: 2 * MINUTE, stalledMs: 5 * MINUTE },
  incidentWatch: { everyMs: 15 * SECOND, renewMs: 1 * MINUTE, quietMs: 1 * HOUR },
  /**
   * The checks of `doctor`. They count crashes and skips in a row, look back for some time, and report jobs
   * that run much longer than usual.
   */
  checks: {
    crashesMin: 3,
    crashWindowMs: 1 * HOUR,
    attemptsRead: 100,
    failuresRead: 20,
    runningRead: 100,
    overlongMinMs: 1 * MINUTE,
    overlongUnknownMs: 30 * MINUTE,
    overlongFactor: 5,
    usualAttemptsMin: 3,
    usualAttemptsRead: 50,
    successesRead: 20,
    skipsMin: 3,
    quietMs: 2 * DAY,
    suppressedMin: 3,
    unmatchedAttemptsMin: 10,
    unmatchedMs: 1 * DAY,
    changedKeysMax: 20,
  },
  /**
   * Counts of refused calls and suppressed jobs: the window, the keys of each kind, how often a process
   * writes them, and the length of a key.
   */
  observations: { windowMs: 1 * HOUR, keysMax: 100, flushMs: 2 * SECOND, keyCharsMax: 200 },
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
  /** How far ahead the times of a schedule are compared with quiet hours, and the fewest and most of them. */
  quietHoursPreview: { daysMs: 8 * DAY, timesMin: 5, timesMax: 20_000 },
  /** A disk is nearly full if both the free part and the free bytes are below these. */
  diskNearlyFull: { freePart: 0.05, freeBytes: 2 * GIB },
  /** Characters of the id of a finding. */
  findingIdCharsMax: 300,
  /** When a pause or a waiting approval becomes a warning. */
  pausedWarningMs: DAY,
} as const;
