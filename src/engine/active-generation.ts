import type { Log } from '../base/log.ts';
import type { OnAsked } from '../directive/types.ts';
import { requireSecrets } from '../webhook/endpoints.service.ts';
import { makeGeneration, tellFindings, tellSchemas, type Generation } from './generation.ts';
import { makeAsksOf } from '../package/handlers.service.ts';
import type { HealthKeeper } from '../job/plugin-init.service.ts';
import type { WebhookIntake } from '../webhook/webhooks.ts';
import {
  makeInstallationKeeper,
  type InstallationKeeper,
} from '../package/installations.service.ts';
import type { EngineParts } from './parts.ts';
import { makeReloader, type Reloader } from './reload.ts';
import { refuseUnisolated } from '../tenant/require-isolation.service.ts';

export interface InForceOptions {
  readonly parts: EngineParts;
  readonly processId: string;
  readonly isRunning: () => boolean;
  readonly health: () => Pick<HealthKeeper, 'learn' | 'require'>;
  readonly hooks: () => WebhookIntake;
  /** Another is in force; must not fail: half a reload would be neither the old nor the new one. */
  readonly onAdopted: (generation: Generation) => void;
  /** Ends what waits for plugins that were taken away. */
  readonly forsake: (plugins: readonly string[]) => Promise<void>;
  /** A signal has asked for directives, which are ready now. */
  readonly onAsked: OnAsked;
}

/** What the process works with (the files and what is installed), and how it comes to be another. */
export class InForce {
  readonly reloader: Reloader;
  readonly installations: InstallationKeeper;
  readonly #options: InForceOptions;
  readonly #log: Log;
  #generation: Generation;
  /** Whether what was found in what it begins with is in the log. */
  #isTold = false;

  constructor(options: InForceOptions) {
    const { blueprint, log } = options.parts;
    this.#options = options;
    this.#log = log;
    this.#generation = makeGeneration(blueprint, 1, log);
    this.reloader = this.#makeReloader();
    this.installations = this.#makeInstallations();
  }

  /** What is in force now; a reload puts another in its place. */
  get generation(): Generation {
    return this.#generation;
  }

  /** Where packages are looked for; the first of two that are alike counts. */
  get packageRoots(): readonly string[] {
    const configured = this.#generation.config.packageRoots.map(({ path }) => path);
    return [...configured, ...[this.#options.parts.shippedPackages ?? []].flat()];
  }

  /** What the engine begins with has what is installed in it; nothing is written. */
  async extend(): Promise<void> {
    const { blueprint } = this.#options.parts;
    const extended = await this.installations.extend(blueprint);
    if (extended !== blueprint) this.#generation = makeGeneration(extended, 1, this.#log);
    if (!this.#isTold) tellFindings(this.#generation, this.#log);
    this.#isTold = true;
  }

  #makeInstallations(): InstallationKeeper {
    const { parts, isRunning, onAsked } = this.#options;
    const { ledger, compile } = parts;
    ledger.handleSignals(
      makeAsksOf(() => this.#generation.config, this.#log.child('handlers')),
      onAsked,
    );
    return makeInstallationKeeper({
      ledger,
      isRunning,
      current: () => this.#generation,
      compile,
      renew: () => this.reloader.renew(),
      log: this.#log.child('installations'),
    });
  }

  #makeReloader(): Reloader {
    const { parts, processId, health, hooks, onAdopted, forsake } = this.#options;
    const { load, compile, ledger, runner, tenants, isolation } = parts;
    return makeReloader({
      processId,
      current: () => this.#generation,
      load,
      compile,
      extend: (files) => this.installations.extend(files),
      ledger,
      // Whether plugins are well under it must be known before the first claim.
      prepare: async ({ config }) => {
        if (config.webhooks.enabled) await requireSecrets(config.webhooks, hooks());
        const others = tenants === undefined ? [] : await ledger.tenants.list();
        if (others.length > 0) refuseUnisolated(config, isolation);
        await health().learn();
      },
      adopt: (generation) => {
        this.#generation = generation;
        tenants?.renew();
        void tellSchemas(generation, this.#log);
        runner.prewarm(generation);
        onAdopted(generation);
      },
      follow: async () => {
        await health().require();
        await this.installations.note(this.#generation.installed);
      },
      forsake,
      log: this.#log,
    });
  }
}
