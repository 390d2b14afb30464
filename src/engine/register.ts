import type { Config } from '../config/config.ts';
import { cancelDirective, retryDirective, type JobSeams } from './direct-jobs.ts';
import { registerRunDirectives, type RunSeams } from './direct-runs.ts';
import { registerScheduleDirectives } from './direct-schedules.ts';
import { replayDirective, type SignalSeams } from './direct-signals.ts';
import {
  pauseDirective,
  resumeDirective,
  switchDirective,
  type PauseSeams,
  type SwitchSeams,
} from './direct-switches.ts';
import {
  createTokenDirective,
  revokeTokenDirective,
  rotateTokenDirective,
  type TokenSeams,
} from './direct-tokens.ts';
import type { Directives } from './directives.ts';
import { initDirective, type HealthKeeper } from './health.ts';
import { reloadDirective, type Reloader } from './reload.ts';
import type { TokenStore } from './token-store.ts';

export interface Seams
  extends JobSeams, SwitchSeams, Omit<PauseSeams, 'refresh'>, Pick<TokenSeams, 'configured'> {
  readonly tokens: Pick<TokenStore, 'refresh'>;
  /** Whether the system is paused may have changed. */
  readonly onPause: () => Promise<void>;
}

export interface AllSeams extends Omit<Seams, 'configured'>, RunSeams, SignalSeams {
  readonly config: () => Config;
  readonly health: Pick<HealthKeeper, 'renew'>;
  readonly reloader: Reloader;
  /** Schedules may be due sooner than they were. */
  readonly onSchedules: () => void;
}

/** Those about schedules, the configuration, plugins, runs and signals as well. */
export function registerAllDirectives(directives: Directives, seams: AllSeams): void {
  const { config, catalog, health, reloader, onSchedules } = seams;
  registerDirectives(directives, { ...seams, configured: () => config().api.auth.tokens });
  registerScheduleDirectives(directives, { ...seams, onChange: onSchedules });
  directives.registerDirective(reloadDirective(reloader));
  directives.registerDirective(initDirective(health, catalog));
  registerRunDirectives(directives, seams);
  directives.registerDirective(replayDirective(seams));
}

/** The directives about jobs, switches and tokens. */
export function registerDirectives(directives: Directives, seams: Seams): void {
  directives.registerDirective(cancelDirective(seams));
  directives.registerDirective(retryDirective(seams));
  const pausing = { ...seams, refresh: seams.onPause };
  directives.registerDirective(pauseDirective(pausing));
  directives.registerDirective(resumeDirective(pausing));
  directives.registerDirective(switchDirective(seams, true));
  directives.registerDirective(switchDirective(seams, false));
  const access = { ...seams, refresh: () => seams.tokens.refresh() };
  directives.registerDirective(createTokenDirective(access));
  directives.registerDirective(revokeTokenDirective(access));
  directives.registerDirective(rotateTokenDirective(access));
}
