import type { JsonObject } from '../base/json.ts';
import type { Cron } from './cron.ts';
import type { Every } from './every.ts';
import type { QuietAction, QuietHours, DayWindow } from './window.ts';

/** When a command of a plugin is due: one entry of `plugins.<name>.schedules`, checked and frozen. */
export interface Schedule {
  readonly id: string;
  readonly timing: Timing;
  readonly command: string;
  readonly payload: Readonly<JsonObject>;
  readonly jitterMs: number;
  readonly catchUp: CatchUp;
  readonly ifRunning: IfRunning;
  readonly onlyBetween: DayWindow | undefined;
  /** Weekdays on which nothing is due, 0 is Sunday. */
  readonly notOn: readonly number[];
  readonly preferredWindow: DayWindow | undefined;
  /** An IANA name; undefined leaves it to `service.timezone`. */
  readonly timezone: string | undefined;
  /** Each side that is not said is that of `service.quiet_hours`. */
  readonly quiet: QuietHours;
  readonly quietAction: QuietAction;
  /** Its jobs share this dependency key. */
  readonly dependency: string | undefined;
}

/** `text` is what the operator wrote. */
export type Timing =
  | { readonly mode: 'every'; readonly text: string; readonly every: Every }
  | { readonly mode: 'cron'; readonly text: string; readonly cron: Cron }
  | { readonly mode: 'at'; readonly text: string; readonly atMs: number }
  | { readonly mode: 'after'; readonly text: string; readonly afterMs: number };

export type ScheduleMode = Timing['mode'];

export const catchUps = ['skip', 'run_once', 'run_all'] as const;
type CatchUp = (typeof catchUps)[number];

export const ifRunnings = ['skip', 'queue', 'cancel'] as const;
type IfRunning = (typeof ifRunnings)[number];

/** Why a due time passes without a job. */
export type SkipReason =
  | 'missed'
  | 'quiet_hours'
  | 'already_running'
  | 'outstanding_limit'
  | 'circuit_open'
  | 'plugin_disabled'
  | 'plugin_unhealthy'
  | 'tenant_limit'
  | 'tenant_suspended';

export interface OverlapRules {
  readonly ifRunning: IfRunning;
  /** Queued and running jobs of one schedule that `queue` may add up to. */
  readonly outstandingMax: number;
}

/** What is done about jobs of the same schedule that are not finished yet. */
export function decideOverlap(
  { ifRunning, outstandingMax }: OverlapRules,
  outstanding: number,
): 'fire' | 'cancel' | SkipReason {
  if (outstanding === 0) return 'fire';
  if (ifRunning === 'cancel') return 'cancel';
  if (ifRunning === 'skip') return 'already_running';
  return outstanding < outstandingMax ? 'fire' : 'outstanding_limit';
}
