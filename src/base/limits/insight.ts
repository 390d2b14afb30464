import { DAY, GIB } from './units.ts';

/** What `doctor` and the incident watcher look at. */
export const insightLimits = {
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
  quietLook: { daysMs: 8 * DAY, timesMin: 5, timesMax: 20_000 },
  /** A disk with less free than this part of it, and less than these bytes, is nearly full. */
  diskNearlyFull: { freePart: 0.05, freeBytes: 2 * GIB },
  /** Characters of the id of a finding. */
  findingIdCharsMax: 300,
  /** When a pause or a waiting approval becomes a warning. */
  pausedWarningMs: DAY,
} as const;
