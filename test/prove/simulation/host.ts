/** A host: an engine with its spawner, which starts, freezes, crashes and restarts. */
import { allDirectives } from '../../../src/operation/all.ts';
import { createProcessContext } from '../../../src/engine/process-context.ts';
import type { Log } from '../../../src/base/log.ts';
import type { Blueprint } from '../../../src/engine/generation.ts';
import { LedgerEngine } from '../../../src/engine/ledger-engine.ts';
import type { Vault } from '../../../src/access/vault.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { silentNotifier, type Notifier } from '../../../src/ledger/notifier.ts';
import { refuseLate } from '../../../src/operation/request-directive.ts';
import type { Random } from '../../support/crash/random.ts';
import type { Checker } from './checker.ts';
import type { Database } from './database.ts';
import { Spawner } from './spawner.ts';
import type { Actor, VirtualTime } from './time.ts';

export interface HostOptions {
  readonly name: string;
  readonly blueprint: Blueprint;
  readonly vault: Vault;
  readonly time: VirtualTime;
  readonly random: Random;
  readonly database: Database;
  readonly checker: Checker;
  readonly notifier: Notifier;
  /** Changes the ledger by a planted mistake. */
  readonly spoil: (ledger: Ledger, host: { readonly spawner: Spawner }) => Ledger;
  readonly log: Log;
}

export class Host {
  readonly actor: Actor;
  readonly engine: LedgerEngine;
  readonly spawner: Spawner;
  isUp = false;
  wasUp = false;
  isLeaving = false;
  /** Resolves when the host has ended. */
  readonly death: Promise<void>;
  readonly #options: HostOptions;
  readonly #died: () => void;

  constructor(options: HostOptions) {
    const { name, blueprint, vault, time, random, database, checker, log } = options;
    this.#options = options;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.death = promise;
    this.#died = resolve;
    this.actor = { name, isDead: false, frozenUntil: 0, clockMs: 0 };
    const { actor } = this;
    const onPoison = (): void => this.crash();
    this.spawner = new Spawner({ time, random, actor, checker, onPoison });
    this.engine = time.as(actor, () => {
      const ledger = database.connect(actor, options.notifier);
      const { maxWorkers } = blueprint.config.service;
      const shared = createProcessContext(() => maxWorkers, {
        version: '0.0.0',
        directives: allDirectives,
        authorize: refuseLate,
      });
      return new LedgerEngine(shared, {
        blueprint,
        source: { load: () => blueprint, compile: () => blueprint },
        ledger: options.spoil(ledger, this),
        host: this.spawner,
        runner: this.spawner.runner,
        vault,
        log,
      });
    });
  }

  /** Does something as this host would. */
  as<T>(work: (engine: LedgerEngine) => T): T {
    return this.#options.time.as(this.actor, () => work(this.engine));
  }

  /** Crashes if the start fails. */
  async start(): Promise<void> {
    try {
      await this.as((engine) => engine.start());
      this.isUp = true;
      this.wasUp = true;
    } catch {
      this.crash();
    }
  }

  crash(): void {
    if (this.actor.isDead) return;
    this.isUp = false;
    this.#end();
  }

  freeze(ms: number): void {
    this.actor.frozenUntil = this.#options.time.now + ms;
    this.#options.database.froze(this.actor);
  }

  /** Stops regularly. */
  async leave(): Promise<void> {
    this.isUp = false;
    this.isLeaving = true;
    await this.as((engine) => engine.stop());
    this.#end();
  }

  #end(): void {
    this.actor.isDead = true;
    this.spawner.die();
    // A host that has left can still have a pending request that it didn't wait for.
    this.#options.database.abandon(this.actor);
    this.#died();
  }
}

/** Hints between hosts, some of which never arrive. */
export class Hints {
  readonly #listeners = new Map<Actor, () => void>();
  readonly #time: VirtualTime;
  readonly #random: Random;
  lossShare = 0;

  constructor(time: VirtualTime, random: Random) {
    this.#time = time;
    this.#random = random;
  }

  notifierOf(actor: () => Actor): Notifier {
    return {
      ...silentNotifier,
      onHint: (listener) => void this.#listeners.set(actor(), listener),
      hint: () => {
        for (const [other, listener] of this.#listeners) {
          if (other.isDead) this.#listeners.delete(other);
          else if (other !== actor() && this.#random() >= this.lossShare) {
            this.#time.after(1, other, listener);
          }
        }
      },
    };
  }
}
