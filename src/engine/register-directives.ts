import type { Config } from '../config/config.ts';
import { cancelDirective, retryDirective, type JobSeams } from '../job/change.service.ts';
import { acknowledgeDirective, type AcknowledgeSeams } from '../insight/acknowledge.service.ts';
import { registerRunDirectives, type RunSeams } from '../pipeline/run/change.service.ts';
import { registerScheduleDirectives } from '../schedule/change.service.ts';
import {
  deleteCredentialDirective,
  setCredentialDirective,
  type CredentialSeams,
} from '../access/change-credential.service.ts';
import { backupDirective, exportDirective } from '../ledger/change-backup.service.ts';
import { pruneDirective, retentionDirective } from '../job/prune.service.ts';
import { replayDirective, type ReplaySeams } from '../signal/replay.service.ts';
import {
  pauseDirective,
  resumeDirective,
  switchDirective,
  type PauseSeams,
  type SwitchSeams,
} from './change-switch.ts';
import {
  createTokenDirective,
  revokeTokenDirective,
  rotateTokenDirective,
  type TokenSeams,
} from '../access/change-token.service.ts';
import { registerPackageDirectives, type PackageSeams } from '../package/change.service.ts';
import type { Directives } from '../directive/request.service.ts';
import { initDirective, type HealthKeeper } from '../job/plugin-init.service.ts';
import { reloadDirective, type Reloader } from './reload.ts';
import { rotateKeyDirective } from '../access/rotate-key.service.ts';
import { registerTenantDirectives } from '../tenant/change.service.ts';
import type { TenancySeams } from './tenancy.ts';
import type { TokenStore } from '../access/tokens.service.ts';
import { registerWebhookDirectives, type WebhookSeams } from '../webhook/change.service.ts';
import type { Vault } from '../access/vault.ts';

export interface Seams
  extends JobSeams, SwitchSeams, Omit<PauseSeams, 'refresh'>, Omit<TokenSeams, 'refresh'> {
  readonly tokens: Pick<TokenStore, 'refresh'>;
  /** Whether the system is paused may have changed. */
  readonly onPause: () => Promise<void>;
}

export interface AllSeams
  extends
    Omit<Seams, 'configured' | 'lead' | 'unlead'>,
    RunSeams,
    AcknowledgeSeams,
    ReplaySeams,
    CredentialSeams,
    PackageSeams,
    WebhookSeams,
    TenancySeams {
  readonly vault: Vault;
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
  if (!seams.isTenant) {
    directives.registerDirective(reloadDirective(reloader));
    directives.registerDirective(backupDirective(seams));
    directives.registerDirective(exportDirective(seams));
  }
  if (seams.tenants !== undefined) registerTenantDirectives(directives, seams.tenants);
  directives.registerDirective(initDirective(health, catalog));
  registerRunDirectives(directives, seams);
  directives.registerDirective(acknowledgeDirective(seams));
  registerPackageDirectives(directives, seams);
  registerWebhookDirectives(directives, seams);
  directives.registerDirective(replayDirective(seams));
  directives.registerDirective(pruneDirective(seams));
  directives.registerDirective(retentionDirective(seams));
  directives.registerDirective(setCredentialDirective(seams));
  directives.registerDirective(deleteCredentialDirective(seams));
  const isRoot = !seams.isTenant;
  const { tenants } = seams.tenants ?? {};
  directives.registerDirective(rotateKeyDirective({ ...seams, tenants, isRoot }));
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
