import type { Breakage } from './breakage.ts';
import {
  missingKey,
  missingScope,
  unmatchedWatch,
  webhookWithoutSecret,
  webhookWithoutTarget,
} from './access-kinds.ts';
import { changedOnDisk, foreignLock, routeLoop, typo } from './config-kinds.ts';
import {
  droppedVariable,
  failedSetup,
  lostExecuteBit,
  notExecutableAtStart,
} from './plugin-kinds.ts';
import {
  alwaysSkipped,
  neverFires,
  openBreaker,
  pausedSchedule,
  pausedSystem,
} from './schedule-kinds.ts';
import { crashLoop, fullDisk } from './service-kinds.ts';
import {
  deadJobs,
  haltedRuns,
  hangingJob,
  heldKey,
  unseenApproval,
  wideDedupeKey,
} from './work-kinds.ts';

/** Every kind of broken installation that the campaign repairs. */
export const breakages: readonly Breakage[] = [
  lostExecuteBit,
  notExecutableAtStart,
  droppedVariable,
  failedSetup,
  openBreaker,
  neverFires,
  alwaysSkipped,
  pausedSchedule,
  pausedSystem,
  haltedRuns,
  unseenApproval,
  deadJobs,
  hangingJob,
  heldKey,
  wideDedupeKey,
  typo,
  changedOnDisk,
  routeLoop,
  foreignLock,
  missingScope,
  missingKey,
  webhookWithoutTarget,
  webhookWithoutSecret,
  unmatchedWatch,
  crashLoop,
  fullDisk,
];

/** The kinds of `npm test`, which are quick. */
export const shortBreakages: readonly Breakage[] = [haltedRuns, failedSetup, unseenApproval, typo];
