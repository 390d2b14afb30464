/** A world: hosts, clients and a database, under the faults of its seed, and then without faults. */
import { makeLogger, type Log } from '../../../src/base/log.ts';
import { LogRing } from '../../../src/base/log-ring.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { between, makeRandom, type Random } from '../../support/crash/random.ts';
import { Checker } from './checker.ts';
import { Client } from './clients.ts';
import { Database, noFaults } from './database.ts';
import { Hints, Host } from './host.ts';
import { drawPlan, sizeOf, type Plan, type Size, type Trouble } from './plan.ts';
import type { Rewrite } from './rewrite.ts';
import type { Spawner } from './spawner.ts';
import { everyMs, makeWorldSetup, type WorldSetup } from './world-setup.ts';
import { VirtualTime, type Actor } from './time.ts';

/** A plausible mistake. */
export interface Mistake {
  /** A failed transaction stays, or an uncommitted one counts. */
  readonly transactions?: 'kept' | 'believed';
  readonly rewrite?: Rewrite;
  readonly spoil?: (ledger: Ledger, host: { readonly spawner: Spawner }) => Ledger;
}

export interface WorldReport {
  readonly fault: string | undefined;
  readonly trace: string;
  readonly size: Size;
  readonly virtualMs: number;
  /** The CPU time that it used. */
  readonly cpuMs: number;
  readonly steps: number;
  readonly commits: number;
  readonly jobs: number;
  readonly runs: number;
  readonly attempts: number;
  readonly troubles: number;
  readonly moves: ReadonlySet<string>;
}

const EPOCH = Date.UTC(2030, 0, 1);
const DAY = 86_400_000;
/** The time in which all work is done after the last fault. */
const PEACE_MS = 1_800_000;
const LOOK_MS = 5000;
const RESTART_MS = 5000;
const RESTART_MS_MAX = 40_000;
/** The schedules that must fire once more. */
const awaited: Readonly<Record<Size, readonly string[]>> = {
  small: ['often'],
  large: Object.keys(everyMs),
};
/** Several times the number of steps of the busiest world; more means an endless loop. */
const STEPS_MAX = 150_000;

/** The setup of all worlds; one world has run with it, so that later ones find the same caches. */
export async function openWorldSetup(directory: string): Promise<WorldSetup> {
  const setup = await makeWorldSetup(directory);
  // The first world depends on what this process did before, so one without a run is followed by
  // another.
  for (let seed = FIRST_SEED; seed < FIRST_SEED + FIRST_WORLDS; seed += 1) {
    const { runs } = await runWorld(setup, seed, { size: 'large' });
    if (runs > 0) return setup;
  }
  throw new Error('one of the first worlds must have had a run of the pipeline');
}

const FIRST_SEED = 6;
const FIRST_WORLDS = 10;
/** Clients use other ids in each world, because the process remembers some of them. */
let plays = 0;

export interface Play {
  /** The seed decides everything that isn't given. */
  readonly size?: Size;
  readonly mistake?: Mistake;
  /** Receives the log lines of the hosts; without it, nothing is written. */
  readonly onLine?: (line: string) => void;
}

export async function runWorld(
  setup: WorldSetup,
  seed: number,
  { size = sizeOf(seed), mistake = {}, onLine }: Play = {},
): Promise<WorldReport> {
  const random = makeRandom(seed);
  const plan = drawPlan(random, size);
  const time = new VirtualTime(EPOCH + between(random, 0, 3650) * DAY, random);
  const log =
    onLine === undefined
      ? mute
      : makeLogger({ level: 'warn', format: 'json', destination: { write: onLine } });
  plays += 1;
  const world = new World({ play: plays, setup, plan, time, random, mistake, log });
  time.install();
  try {
    return await world.run();
  } finally {
    time.restore();
  }
}

const unsaid = (): void => undefined;
const mute: Log = {
  debug: unsaid,
  info: unsaid,
  warn: unsaid,
  error: unsaid,
  child: () => mute,
  forTenant: () => mute,
  ring: new LogRing(),
};

interface WorldOptions {
  readonly play: number;
  readonly setup: WorldSetup;
  readonly plan: Plan;
  readonly time: VirtualTime;
  readonly random: Random;
  readonly mistake: Mistake;
  readonly log: Log;
}

class World {
  readonly #options: WorldOptions;
  readonly #database: Database;
  readonly #checker: Checker;
  readonly #hints: Hints;
  readonly #hosts: Host[] = [];
  readonly #leaving = new Set<string>();
  #troubles = 0;
  #booted = 0;

  constructor(options: WorldOptions) {
    const { setup, plan, time, random, mistake } = options;
    this.#options = options;
    this.#checker = new Checker({
      isShared: plan.kind === 'postgres',
      isLeaving: (id) => this.#leaving.has(id),
    });
    this.#hints = new Hints(time, random);
    this.#database = new Database({
      tables: setup.tables,
      time,
      random,
      kind: plan.kind,
      rewrite: mistake.rewrite,
      transactions: mistake.transactions,
      onCommit: (changes, actor, askedAt) => {
        const by = this.#hostOf(actor)?.engine.processId;
        this.#checker.committed(changes, { nowMs: this.#database.now, by, askedAt });
      },
      onKill: (actor) => this.#hostOf(actor)?.crash(),
    });
  }

  async run(): Promise<WorldReport> {
    const { plan, time } = this.#options;
    const beganAt = time.now;
    const usedBefore = process.threadCpuUsage();
    const untilMs = beganAt + plan.stormMs;
    const clients = Array.from(
      { length: plan.clients },
      (_, index) =>
        new Client(`w${this.#options.play}c${index}`, {
          ...this.#options,
          checker: this.#checker,
          hosts: () => this.#hosts,
          untilMs,
        }),
    );
    const story = async (): Promise<void> => {
      for (let index = 0; index < plan.hosts; index += 1) void this.#keepUp(index);
      void this.#storm(untilMs);
      await Promise.all(clients.map((client) => client.run()));
      await time.wait(Math.max(0, untilMs - time.now));
      await this.#peace();
    };
    let fault: string | undefined;
    try {
      await time.until(story(), () => this.#checker.fault !== undefined || time.steps > STEPS_MAX);
      if (time.steps > STEPS_MAX) fault = `I12: no end after ${STEPS_MAX} steps`;
    } catch (error) {
      fault = String(error);
    }
    fault = this.#checker.fault ?? fault;
    for (const host of this.#hosts) host.crash();
    const used = process.threadCpuUsage(usedBefore);
    return {
      fault,
      trace: this.#checker.trace,
      size: plan.size,
      virtualMs: time.now - beganAt,
      cpuMs: (used.user + used.system) / 1000,
      steps: time.steps,
      commits: this.#checker.commits,
      jobs: this.#checker.jobs.all.size,
      runs: this.#checker.runs.all.size,
      attempts: this.#checker.attempts.count,
      troubles: this.#troubles,
      moves: this.#checker.jobs.moves,
    };
  }

  /** A supervisor: restarts a host that is gone, with longer and longer waits if it can't start. */
  async #keepUp(index: number): Promise<void> {
    const { time, random } = this.#options;
    let waitMs = RESTART_MS;
    for (;;) {
      const host = this.#makeHost(index);
      this.#hosts[index] = host;
      void host.start();
      await host.death;
      waitMs = host.wasUp ? RESTART_MS : Math.min(2 * waitMs, RESTART_MS_MAX);
      await time.wait(between(random, 100, waitMs));
    }
  }

  #hostOf(actor: Actor): Host | undefined {
    return this.#hosts.find((host) => host.actor === actor);
  }

  #makeHost(index: number): Host {
    const { setup, plan, time, random, mistake, log } = this.#options;
    const host: Host = new Host({
      name: `h${index}.${(this.#booted += 1)}`,
      blueprint: setup.blueprints[plan.size],
      vault: setup.vault,
      time,
      random,
      database: this.#database,
      checker: this.#checker,
      notifier: this.#hints.notifierOf(() => host.actor),
      spoil: mistake.spoil ?? ((ledger) => ledger),
      log,
    });
    return host;
  }

  async #storm(untilMs: number): Promise<void> {
    const { plan, time, random } = this.#options;
    this.#database.faults = plan.faults;
    this.#hints.lossShare = plan.hintsLost;
    while (plan.troubles.length > 0) {
      await time.wait(between(random, 1, 2 * plan.troubleEveryMs));
      if (time.now >= untilMs) return;
      const trouble = plan.troubles[between(random, 0, plan.troubles.length - 1)];
      const host = this.#hosts[between(random, 0, this.#hosts.length - 1)];
      if (trouble === undefined || host === undefined || host.actor.isDead) continue;
      this.#troubles += 1;
      this.#strike(trouble, host);
    }
  }

  #strike(trouble: Trouble, host: Host): void {
    const { plan, time, random } = this.#options;
    const ms = between(random, 100, plan.troubleMsMax);
    switch (trouble) {
      case 'crash':
        host.crash();
        break;
      case 'freeze':
        host.freeze(ms);
        break;
      case 'leave':
        if (!host.isUp) break;
        this.#leaving.add(host.engine.processId);
        void host.leave();
        break;
      case 'outage':
        this.#database.isAway = true;
        time.after(ms, undefined, () => void (this.#database.isAway = false));
        break;
      case 'cutOff':
        this.#database.cutOff.add(host.actor);
        time.after(ms, undefined, () => void this.#database.cutOff.delete(host.actor));
        break;
      case 'clock':
        host.actor.clockMs += between(random, -DAY, DAY);
        break;
    }
  }

  /** The phase without faults: all work is done in time and correctly. */
  async #peace(): Promise<void> {
    const { plan, time } = this.#options;
    this.#database.faults = noFaults;
    this.#hints.lossShare = 0;
    const deadline = time.now + PEACE_MS;
    const beganAt = this.#database.now;
    const { jobs, runs, schedules } = this.#checker;
    const isDone = (): boolean =>
      jobs.open.every(({ schedule_id: id }) => id !== null) &&
      runs.open.length === 0 &&
      awaited[plan.size].every((id) => (schedules.fired.get(id)?.lastMs ?? 0) > beganAt);
    while (!isDone()) {
      if (time.now > deadline) throw new Error(`I12: ${await this.#describeOpen()}`);
      await time.wait(LOOK_MS);
    }
    const found = await this.#database.check();
    if (found.length > 0) throw new Error(`check: ${found.join(', ')}`);
  }

  async #describeOpen(): Promise<string> {
    const { jobs, runs } = this.#checker;
    const branches = await this.#database.query(
      'select * from run_branches where completed_at is null limit 3',
    );
    const schedules = await this.#database.query('select * from schedules');
    const open = [...jobs.open.slice(0, 3), ...runs.open.slice(0, 3)];
    const rows = [...open, ...branches, ...schedules];
    const texts = rows.map((row) => JSON.stringify(row));
    return `${jobs.open.length} jobs and ${runs.open.length} runs are not done: ${texts.join(' ')}`;
  }
}
