import { cancelDirective, retryDirective, type JobSeams } from './direct-jobs.ts';
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
import type { TokenStore } from './token-store.ts';

export interface Seams
  extends JobSeams, SwitchSeams, Omit<PauseSeams, 'refresh'>, Pick<TokenSeams, 'configured'> {
  readonly tokens: Pick<TokenStore, 'refresh'>;
  /** Whether the system is paused may have changed. */
  readonly onPause: () => Promise<void>;
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
