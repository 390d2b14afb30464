/** Clients that submit work at any host that is up, and repeat requests without a response. */
import type { JsonObject } from '../../../src/base/json.ts';
import type { LedgerEngine } from '../../../src/engine/ledger-engine.ts';
import { between, type Random } from '../../support/crash/random.ts';
import type { Checker } from './checker.ts';
import type { Host } from './host.ts';
import type { Plan } from './plan.ts';
import { fates, type Fate } from './spawner.ts';
import { longMs } from './world-setup.ts';
import type { VirtualTime } from './time.ts';

export interface ClientOptions {
  readonly time: VirtualTime;
  readonly random: Random;
  readonly plan: Plan;
  readonly checker: Checker;
  readonly hosts: () => readonly Host[];
  readonly untilMs: number;
}

const PATIENCE_MS = 10_000;
const OPEN_MAX = 25;
const asker = { submittedBy: 'api', actor: 'client' } as const;

export class Client {
  acknowledged = 0;
  readonly #options: ClientOptions;
  readonly #name: string;
  #wishes = 0;
  readonly #known: string[] = [];

  constructor(name: string, options: ClientOptions) {
    this.#name = name;
    this.#options = options;
  }

  async run(): Promise<void> {
    const { time, random, plan, checker, untilMs } = this.#options;
    while (time.now < untilMs && this.#wishes < plan.wishes) {
      // A client that sees no progress submits nothing more.
      if (checker.jobs.openCount < OPEN_MAX) await this.#wish();
      await time.wait(between(random, 1, plan.pauseMs));
    }
  }

  #wish(): Promise<void> {
    const { random } = this.#options;
    const draw = random();
    if (draw < 0.12) return this.#cancel();
    if (draw < 0.2) return this.#startRun();
    if (draw < 0.24) return this.#retry();
    return this.#submit();
  }

  async #submit(): Promise<void> {
    const { random, checker } = this.#options;
    const id = this.#nextId();
    const isLong = random() < this.#options.plan.longShare;
    const plugin = isLong ? 'long' : this.#pick(['worker', 'worker', 'single', 'counter', 'child']);
    // A job queued behind long ones would wait for longer than any world lasts.
    const keyed = isLong ? 0.5 : random();
    const submission = {
      ...asker,
      id,
      plugin,
      command: 'poll',
      payload: this.#payload(plugin),
      ...(keyed < 0.15 ? { dedupeKey: `key ${between(random, 1, 3)}`, blockInFlight: true } : {}),
      ...(keyed > 0.85 ? { dependencyKey: `line ${between(random, 1, 2)}` } : {}),
      ...(random() < 0.1 ? { due: { inMs: between(random, 1, 20_000) } } : {}),
    };
    const answer = await this.#insist((engine) => engine.submit(submission));
    if (answer === undefined) return;
    this.acknowledged += 1;
    checker.jobs.acknowledged(answer.duplicateOf ?? answer.jobId);
    this.#known.push(answer.jobId);
  }

  async #startRun(): Promise<void> {
    const { random, checker } = this.#options;
    const id = this.#nextId();
    const items = Array.from({ length: between(random, 0, 5) }, (_, index) => index);
    checker.runs.asked(id, items.length);
    const payload = { items, ms: between(random, 1, 300) };
    const submission = { ...asker, id, pipeline: 'wide', payload };
    const answer = await this.#insist((engine) => engine.startRun(submission));
    if (answer === undefined) return;
    this.acknowledged += 1;
    checker.runs.acknowledged(answer.runId);
  }

  async #cancel(): Promise<void> {
    await this.#direct('job.cancel');
  }

  async #retry(): Promise<void> {
    await this.#direct('job.retry');
  }

  async #direct(type: string): Promise<void> {
    const jobId = this.#known[between(this.#options.random, 0, this.#known.length - 1)];
    if (jobId === undefined) return;
    const request = {
      type,
      params: { job_id: jobId },
      actor: 'client',
      idempotencyKey: this.#nextId(),
    };
    await this.#insist((engine) => engine.direct(request));
  }

  #payload(plugin: string): JsonObject {
    const { random, plan } = this.#options;
    const draw = random();
    const isBad = draw < (plan.isHostile ? 0.3 : 0.05);
    const usualMs = draw > 0.9 ? between(random, 5000, 18_000) : between(random, 1, 1500);
    const ms = plugin === 'long' ? between(random, longMs.least, longMs.most) : usualMs;
    return {
      ms,
      ...(isBad ? { fate: this.#fate(plugin) } : {}),
      ...(random() < 0.1 ? { fails: between(random, 1, 2) } : {}),
      ...(plugin === 'worker' && random() < 0.4 ? { events: between(random, 1, 3) } : {}),
    };
  }

  #fate(plugin: string): Fate {
    const { random, plan } = this.#options;
    if (!plan.isHostile || plugin === 'long') return this.#pick(['error', 'exit']);
    return random() < 0.05 ? 'poison' : this.#pick(fates.filter((fate) => fate !== 'poison'));
  }

  /** Repeats a request until a host responds or the time is over. Undefined when it was refused. */
  async #insist<T>(ask: (engine: LedgerEngine) => Promise<T>): Promise<T | undefined> {
    const { time, random, untilMs } = this.#options;
    for (;;) {
      const up = this.#options.hosts().filter(({ isUp }) => isUp);
      const host = up[between(random, 0, up.length - 1)];
      const answer = host === undefined ? 'nobody' : await this.#ask(host, ask);
      if (typeof answer === 'object') return answer.value;
      if (time.now >= untilMs && answer !== 'late') return undefined;
      await time.wait(between(random, 100, 1000));
    }
  }

  #ask<T>(
    host: Host,
    ask: (engine: LedgerEngine) => Promise<T>,
  ): Promise<{ readonly value: T | undefined } | 'late' | 'failed'> {
    const { time } = this.#options;
    return new Promise((resolve) => {
      time.after(PATIENCE_MS, undefined, () => resolve('late'));
      // Runs as the host's own event, so the host responds only when it is up.
      time.after(0, host.actor, () => {
        ask(host.engine).then(
          (value) => time.after(0, undefined, () => resolve({ value })),
          (error: unknown) =>
            time.after(0, undefined, () =>
              resolve(isRefusal(error) ? { value: undefined } : 'failed'),
            ),
        );
      });
    });
  }

  #nextId(): string {
    this.#wishes += 1;
    // All ids have one length, as real ids do.
    return `${this.#name}-${String(this.#wishes).padStart(5, '0')}`;
  }

  #pick<T>(list: readonly T[]): T {
    return list[between(this.#options.random, 0, list.length - 1)] as T;
  }
}

/** A repeated request would be refused again. */
function isRefusal(error: unknown): boolean {
  const kind = (error as { kind?: { retryable?: boolean } }).kind;
  return kind !== undefined && kind.retryable !== true;
}
