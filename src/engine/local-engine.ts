import { hostname } from 'node:os';
import { DuctileError, messageOf } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import type { Config } from '../config/config.ts';
import type { Job } from '../job/job.ts';
import type { Enqueued, HeartbeatAnswer, Ledger } from '../ledger/ledger.ts';
import type { Route } from '../pipeline/route.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { Host } from '../plugin/process.ts';
import { HOST_FULL_DELAY_MS } from './conclude.ts';
import { Dispatcher } from './dispatcher.ts';
import type { Engine, EngineStatus, Submission } from './engine.ts';
import { makeDoor, type Door } from './enqueue.ts';
import { makeExecutor } from './executor.ts';
import type { FollowRules } from './follow.ts';
import { makeHeartbeat, type Heartbeat } from './heartbeat.ts';
import { makePruner } from './pruner.ts';
import { makeReaper, type Reaper } from './reaper.ts';
import { makeFollowRules, retentionOf, toClaimable } from './rules.ts';
import type { Runner } from './runner.ts';
import { makeSettler, type Settled } from './settle.ts';
import { tellEnd } from './tell.ts';
import { releaseUnheld } from './unheld.ts';
import { makeWaiters, type Waiters } from './waiters.ts';
import { makeWaker, type Waker } from './wake.ts';

/** What the last writes get when the ledger does not answer at shutdown. */
const LAST_WRITES_MS = 10_000;

export interface EngineParts {
  readonly config: Config;
  readonly catalog: Catalog;
  readonly routes: readonly Route[];
  readonly ledger: Ledger;
  readonly host: Host;
  readonly runner: Runner;
  /** The environment of plugins, already reduced to what they may see. */
  readonly environment: Readonly<Record<string, string>>;
  readonly version: string;
  readonly log: Log;
}

/** The moving parts, wired: each is one file, and this one says who tells whom. */
export class LocalEngine implements Engine {
  readonly config: Config;
  readonly catalog: Catalog;
  readonly ledger: Ledger;
  readonly processId = makeId();
  readonly #parts: EngineParts;
  readonly #log: Log;
  readonly #jobLog: Log;
  readonly #startedAt = performance.now();
  readonly #door: Door;
  readonly #waiters: Waiters;
  readonly #dispatcher: Dispatcher;
  readonly #waker: Waker;
  readonly #heartbeat: Heartbeat;
  readonly #reaper: Reaper;
  readonly #pruner: Service;
  #state: 'stopped' | 'starting' | 'running' | 'stopping' = 'stopped';
  #stopping: Promise<void> | undefined;
  #paused = false;
  #pauseChanges = 0;

  constructor(parts: EngineParts) {
    const { config, catalog, routes, ledger, log } = parts;
    const { service } = config;
    const rules = makeFollowRules(config, catalog, routes, log.child('router'));
    this.#parts = parts;
    this.config = config;
    this.catalog = catalog;
    this.ledger = ledger;
    this.#log = log.child('engine');
    this.#jobLog = log.child('job');
    this.#waiters = makeWaiters(ledger);
    this.#door = makeDoor(
      ledger,
      () => catalog,
      () => service.dedupeTtlMs,
      (enqueued) => this.#arrived(enqueued),
    );
    this.#dispatcher = this.#makeDispatcher(rules);
    this.#waker = makeWaker({
      ledger,
      pollMs: service.pollIntervalMs,
      onWork: () => this.#dispatcher.wake(),
      onLook: () => this.#readPaused(),
      log: log.child('waker'),
    });
    this.#heartbeat = this.#makeHeartbeat();
    this.#reaper = this.#makeReaper(rules);
    this.#pruner = makePruner(ledger, () => retentionOf(config), log.child('pruner'));
  }

  submit(submission: Submission): Promise<Enqueued> {
    if (this.#state === 'stopping') {
      return Promise.reject(new DuctileError('STOPPING', 'the engine is stopping'));
    }
    return this.#door.submit(submission);
  }

  waitFor(jobId: string, timeoutMs: number): Promise<Job> {
    return this.#waiters.waitFor(jobId, timeoutMs);
  }

  async cancel(jobId: string): Promise<Job> {
    const answer = await this.ledger.cancel(jobId);
    if (answer === 'requested') this.#dispatcher.stopJob(jobId, 'cancelled');
    if (answer === 'cancelled') this.#waiters.notice([jobId]);
    // Another host that runs it learns of it with its next heartbeat.
    return this.#waiters.waitFor(jobId, 0);
  }

  async pause(): Promise<void> {
    await this.ledger.setMeta('paused', '1');
    this.#pauseChanges += 1;
    this.#setPaused(true);
    await this.#dispatcher.shut();
  }

  async resume(): Promise<void> {
    await this.ledger.setMeta('paused', '0');
    this.#pauseChanges += 1;
    this.#setPaused(false);
  }

  status(): EngineStatus {
    const { running } = this.#dispatcher;
    const trouble = this.#dispatcher.trouble ?? this.#heartbeat.trouble;
    const healthy = this.#paused ? 'paused' : this.#state;
    return {
      processId: this.processId,
      state: trouble === undefined || this.#state === 'stopping' ? healthy : 'degraded',
      detail: trouble,
      slots: this.config.service.maxWorkers,
      running: running.map(({ id, plugin, command }) => ({ jobId: id, plugin, command })),
      spawner: this.#parts.host.rung,
      uptimeMs: Math.round(performance.now() - this.#startedAt),
      plugins: this.catalog.plugins.size,
    };
  }

  async start(): Promise<void> {
    this.#state = 'starting';
    // The helper is ready only when no helper of an earlier engine lives, so neither does its work.
    await this.#parts.host.start();
    this.#parts.runner.prewarm();
    await this.#heartbeat.start();
    if (this.ledger.kind === 'sqlite') {
      const recovered = await this.#reaper.recover();
      if (recovered > 0) this.#log.warn('work of a crashed process recovered', { jobs: recovered });
    }
    this.#paused = (await this.ledger.meta('paused')) === '1';
    this.#state = 'running';
    if (!this.#paused) this.#dispatcher.open();
    for (const part of [this.#waker, this.#reaper, this.#pruner]) await part.start();
  }

  async stop(): Promise<void> {
    if (this.#state !== 'stopped') this.#stopping ??= this.#stop();
    await this.#stopping;
  }

  async #stop(): Promise<void> {
    this.#state = 'stopping';
    void this.#dispatcher.shut();
    for (const part of [this.#waker, this.#reaper, this.#pruner]) await part.stop();
    const { shutdownTimeoutMs } = this.config.service;
    if (!(await settlesWithin(this.#dispatcher.drained(), shutdownTimeoutMs))) {
      this.#log.warn('running attempts are cut short and given back', {
        jobs: this.#dispatcher.running.length,
      });
      this.#dispatcher.stopAll('shutdown');
      const lastMs = limits.killGraceMs + limits.drainMs + LAST_WRITES_MS;
      if (!(await settlesWithin(this.#dispatcher.drained(), lastMs))) this.#dispatcher.abandon();
    }
    await this.#heartbeat.stop();
    await this.ledger.leave(this.processId).catch((error: unknown) => {
      this.#log.warn('could not take leave of the ledger', { error: messageOf(error) });
    });
    this.#parts.runner.stop();
    await this.#parts.host.stop();
    this.#state = 'stopped';
  }

  #makeDispatcher(rules: FollowRules): Dispatcher {
    const { catalog, ledger, config, environment, runner, log } = this.#parts;
    const claimable = [...catalog.plugins.values()].map((plugin) => toClaimable(plugin, config));
    return new Dispatcher({
      settler: makeSettler(ledger, () => rules, log.child('settle')),
      processId: this.processId,
      slots: config.service.maxWorkers,
      plugins: () => claimable,
      execute: makeExecutor({
        catalog: () => catalog,
        rules: () => rules,
        environment: () => environment,
        run: runner.run,
        onHostFull: () => this.#dispatcher.rest(HOST_FULL_DELAY_MS),
        log: log.child('executor'),
      }),
      onSettled: (settled) => this.#settled(settled),
      log: log.child('dispatcher'),
    });
  }

  #makeHeartbeat(): Heartbeat {
    const { catalog, config, host, ledger, log, version } = this.#parts;
    const { heartbeatIntervalMs, reapAfterMs, maxWorkers } = config.service;
    return makeHeartbeat({
      ledger,
      everyMs: heartbeatIntervalMs,
      beat: () => ({
        id: this.processId,
        host: hostname(),
        pid: process.pid,
        version,
        slots: maxWorkers,
        spawner: host.rung,
        plugins: [...catalog.plugins.keys()],
      }),
      onBeat: (answer) => {
        // Only where others may take our claims do our processes have to end when we fall silent.
        if (ledger.kind === 'postgres') host.renew(reapAfterMs - heartbeatIntervalMs);
        this.#compare(answer);
      },
      onLost: () => this.#dispatcher.stopAll('shutdown'),
      log: log.child('heartbeat'),
    });
  }

  #makeReaper(rules: FollowRules): Reaper {
    const { config, ledger, log } = this.#parts;
    const { heartbeatIntervalMs, reapAfterMs, maxCrashes, runnerGraceMs } = config.service;
    return makeReaper({
      ledger,
      processId: this.processId,
      everyMs: heartbeatIntervalMs,
      reapAfterMs,
      runnerGraceMs,
      crashRules: { crashesMax: maxCrashes, suspectAfter: limits.suspectAfter },
      followRules: () => rules,
      // After an outage of the database everybody looks dead to whoever comes back first.
      mayJudge: () => {
        const since = this.#heartbeat.unbrokenSince;
        return since !== undefined && performance.now() - since >= reapAfterMs;
      },
      onReaped: (settlement) => {
        this.#settled({ ...settlement, written: [] });
        // What was given back is ready now, here and elsewhere.
        this.#arrived([]);
      },
      log: log.child('reaper'),
    });
  }

  #compare({ running }: HeartbeatAnswer): void {
    for (const { jobId, cancelRequested } of running) {
      if (cancelRequested) this.#dispatcher.stopJob(jobId, 'cancelled');
    }
    const unheld = running.filter(
      ({ jobId, claimToken }) => !this.#dispatcher.holds(jobId, claimToken),
    );
    if (unheld.length === 0) return;
    releaseUnheld(this.ledger, unheld, this.#log).then(
      (closings) => this.#dispatcher.close(closings),
      (error: unknown) => this.#log.warn('unheld claims stay for now', { error: messageOf(error) }),
    );
  }

  #settled({ verdicts, enqueued, written }: Settled): void {
    this.#waiters.notice(verdicts.keys());
    if (enqueued.length > 0) this.#arrived(enqueued);
    for (const closing of written) {
      tellEnd(closing, this.#jobLog);
      if (closing.ending.delayMs > 0) this.#waker.dueIn(closing.ending.delayMs);
    }
  }

  #arrived(enqueued: readonly Enqueued[]): void {
    for (const { duplicateOf, dedupeKey } of enqueued) {
      if (duplicateOf === undefined) continue;
      const fields = { dedupe_key: dedupeKey, existing_job_id: duplicateOf };
      this.#log.info('dropped: the same work is done or under way', fields);
    }
    this.#dispatcher.wake();
    this.ledger.hint();
  }

  /** Somebody may have paused or resumed all hosts from another one. */
  async #readPaused(): Promise<void> {
    const changes = this.#pauseChanges;
    const paused = (await this.ledger.meta('paused')) === '1';
    // What was changed here meanwhile is newer than what was read.
    if (changes === this.#pauseChanges) this.#setPaused(paused);
  }

  #setPaused(paused: boolean): void {
    if (paused === this.#paused || this.#state !== 'running') return;
    this.#paused = paused;
    if (paused) void this.#dispatcher.shut();
    else this.#dispatcher.open();
    this.#log.info(paused ? 'paused: nothing new is started' : 'resumed');
  }
}

async function settlesWithin(work: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  const result = await Promise.race([work.then(() => true), late]);
  clearTimeout(timer);
  return result;
}
