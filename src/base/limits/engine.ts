import { DAY, GIB, HOUR, MINUTE, SECOND } from './units.ts';

/** Jobs and the services around them: processes, claims, attempts, directives, schedules, incidents. */
export const engineLimits = {
  heartbeatMs: 5 * SECOND,
  reapAfterMs: 30 * SECOND,
  /** How long a directive may be under way in a process that does not beat. */
  directiveOrphanMs: 1 * HOUR,
  /** How often a directive that is safe to repeat is begun, when processes die over it. */
  directiveAttemptsMax: 3,
  /** Directives that waited and are begun by one look. */
  directivesStartedMax: 20,
  /** What a claim may outlive its own timeout and kill grace by, before others take it. */
  claimSlackMs: 60 * SECOND,
  /** Looking for work without being woken. */
  pollMs: 1 * SECOND,
  shutdownMs: 30 * SECOND,
  /** Crashes of the engine that are charged to one job before it is dead. */
  crashesMax: 10,
  /** Engine crashes in a row that a job must have met to be run under suspicion. */
  suspectAfter: 2,
  attemptsMax: 4,
  backoffBaseMs: 30 * SECOND,
  dedupeTtlMs: 24 * HOUR,
  /** How far from now a caller may go: how long a job is put off or keeps its key, how old it is. */
  delayMsMax: 10 * 365 * DAY,
  /** The longest duration of a configuration: taken from or added to now it is still a date. */
  durationMsMax: 100 * 365 * DAY,
  /** Jobs that one bulk cancel or retry may touch, how many unless told, and at once. */
  bulkJobsMax: 100_000,
  bulkJobsDefault: 10_000,
  bulkStepJobs: 200,
  /** How long a queued job waits for a process that knows its plugin before it is dead. */
  runnerGraceMs: 1 * HOUR,
  /** How long a self-check may take before it says what it has found so far. */
  selfcheckMs: 10 * SECOND,
  /** The longest wait that is asked of a timer; Node's own overflow at 24.8 days and fire at once. */
  timerMsMax: 24 * DAY,
  /** How often a schedule may be due at most, and how far it may look ahead. */
  scheduleMsMin: 100,
  scheduleMsMax: 3650 * DAY,
  /** How late a due time may be met and still not count as missed; at least one tick. */
  scheduleGraceMs: 1 * MINUTE,
  /** Until a schedule is looked at again that could not be fired for a reason that may pass. */
  scheduleRetryMs: 2 * SECOND,
  /** Missed times of one schedule that `catch_up: run_all` makes up for. */
  catchUpJobsMax: 100,
  /** Schedules that are worked on between two turns of the event loop. */
  scheduleSliceMax: 25,
  /** Rows of one preview of schedules. */
  previewRowsMax: 1000,
  /** How often schedules are looked at. */
  tickMs: 60 * SECOND,
  /** Failures in a row that open a breaker, and how long it stays open. */
  breakerThreshold: 3,
  breakerResetAfterMs: 30 * MINUTE,
  /** When something is an incident, how often that is looked at, and when what passes is over. */
  incident: { streak: 5, overdueMs: 2 * MINUTE, stalledMs: 5 * MINUTE },
  incidentWatch: { everyMs: 15 * SECOND, renewMs: 1 * MINUTE, quietMs: 1 * HOUR },
  /**
   * The checks of `doctor`: crashes and skips in a row that count, how far back they look, and how much
   * longer than usual a job runs before it is a finding.
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
   * Counts of refused calls and suppressed jobs: how far back they reach, how many keys each kind has,
   * how often a process writes them, and how long the text of a key may be.
   */
  observations: { windowMs: 1 * HOUR, keysMax: 100, flushMs: 2 * SECOND, keyCharsMax: 200 },
  /** How often the log is told of a failure that goes on, such as a database that is away. */
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
  /** Acknowledgements that a look reads, the newest first. */
  acknowledgementsMax: 1000,
  /** How far ahead times of a schedule are compared with quiet hours, and how many at least and at most. */
  quietHoursPreview: { daysMs: 8 * DAY, timesMin: 5, timesMax: 20_000 },
  /** A disk with less free than this part of it, and less than these bytes, is nearly full. */
  diskNearlyFull: { freePart: 0.05, freeBytes: 2 * GIB },
  /** Characters of the id of a finding. */
  findingIdCharsMax: 300,
  /** When a pause or a waiting approval becomes a warning. */
  pausedWarningMs: DAY,
} as const;
