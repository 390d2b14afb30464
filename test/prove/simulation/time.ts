/**
 * Virtual time replaces every timer, clock and source of randomness in the process: a trial takes only
 * the time of its work, and the same seed gives the same trial.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import crypto from 'node:crypto';
import files from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import { makeRandom, type Random } from '../../support/crash/random.ts';
import { Agenda, type Entry } from './agenda.ts';

/** Whose code runs: a host that can be frozen and can die, as processes do. */
export interface Actor {
  readonly name: string;
  isDead: boolean;
  /** Nothing of it runs before this. */
  frozenUntil: number;
  /** The offset of its clock. */
  clockMs: number;
}

const actors = new AsyncLocalStorage<Actor>();
const BYTES_SEED = 1;
const real = { setImmediate, Date, random: Math.random };

export class VirtualTime {
  readonly #agenda = new Agenda();
  readonly #random: Random;
  readonly #beganAt: number;
  #now: number;
  #steps = 0;
  #restore: (() => void) | undefined;

  constructor(beganAt: number, random: Random) {
    this.#beganAt = beganAt;
    this.#now = beganAt;
    this.#random = random;
  }

  /** The true time, without any clock's offset. */
  get now(): number {
    return this.#now;
  }

  get steps(): number {
    return this.#steps;
  }

  /** Runs the work as the actor, who then owns its timers and waits. */
  as<T>(actor: Actor, work: () => T): T {
    return actors.run(actor, work);
  }

  /** Calls back at that time, or when a frozen actor continues; never if the actor is dead. */
  at(when: number, actor: Actor | undefined, run: () => void): Entry {
    return this.#agenda.add(Math.max(when, this.#now), actor, run);
  }

  after(ms: number, actor: Actor | undefined, run: () => void): Entry {
    return this.at(this.#now + ms, actor, run);
  }

  /** Waits as the current actor. */
  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, actors.getStore(), resolve));
  }

  /** Lets time pass until the work is done or `isEnough` returns true. */
  async until(work: Promise<unknown>, isEnough: () => boolean): Promise<void> {
    const story = { isOver: false };
    const over = (): void => void (story.isOver = true);
    work.then(over, over);
    await new Promise((resolve) => real.setImmediate(resolve));
    while (!story.isOver) {
      if (isEnough()) return;
      if (!(await this.#step())) throw new Error('nothing is left to do, and the work is not done');
    }
    await work;
  }

  async #step(): Promise<boolean> {
    const entry = this.#agenda.take();
    if (entry === undefined) return false;
    this.#now = Math.max(this.#now, entry.at);
    const { actor } = entry;
    if (actor?.isDead === true) return true;
    if (actor !== undefined && actor.frozenUntil > this.#now) {
      this.#agenda.putOff(entry, actor.frozenUntil);
      return true;
    }
    entry.isDone = true;
    this.#steps += 1;
    if (actor === undefined) actors.exit(entry.run);
    else actors.run(actor, entry.run);
    await drain();
    return true;
  }

  install(): void {
    const undo: (() => void)[] = [];
    const put = (target: object, name: string, value: unknown): void => {
      const before = Object.getOwnPropertyDescriptor(target, name);
      Object.defineProperty(target, name, { value, configurable: true, writable: true });
      undo.push(() => {
        if (before === undefined) Reflect.deleteProperty(target, name);
        else Object.defineProperty(target, name, before);
      });
    };
    this.#putTimers(put);
    this.#putClocks(put);
    this.#putRandomness(put);
    // Failures are part of every world, and their stack traces aren't used.
    put(Error, 'stackTraceLimit', 0);
    // A disk with free space, without a wait.
    put(files, 'statfs', () => Promise.resolve({ bavail: 1e9, blocks: 2e9, bsize: 4096 }));
    syncBuiltinESMExports();
    this.#restore = () => {
      for (const step of undo.toReversed()) step();
      syncBuiltinESMExports();
    };
  }

  restore(): void {
    this.#restore?.();
    this.#restore = undefined;
  }

  #putTimers(put: Put): void {
    const start = (ms: number | undefined, run: () => void): Timer =>
      new Timer(this.after(Math.max(1, ms ?? 1), actors.getStore(), run));
    const stop = (timer: unknown): void => {
      if (timer instanceof Timer) timer.stop();
    };
    put(globalThis, 'setTimeout', (run: Callback, ms?: number, ...given: unknown[]) =>
      start(ms, () => run(...given)),
    );
    put(
      globalThis,
      'setImmediate',
      (run: Callback, ...given: unknown[]) =>
        new Timer(this.after(0, actors.getStore(), () => run(...given))),
    );
    for (const name of ['clearTimeout', 'clearImmediate']) put(globalThis, name, stop);
    put(timers, 'setImmediate', () => this.wait(0));
    put(timers, 'setTimeout', (ms?: number) => this.wait(Math.max(1, ms ?? 1)));
  }

  #putClocks(put: Put): void {
    const now = (): number => this.#now + (actors.getStore()?.clockMs ?? 0);
    const began = this.#beganAt;
    class VirtualDate extends real.Date {
      constructor(...given: [] | [number]) {
        super(...(given.length === 0 ? ([now()] as const) : given));
      }
      static override now(): number {
        return now();
      }
    }
    put(globalThis, 'Date', VirtualDate);
    // Clock jumps don't change it.
    put(performance, 'now', () => this.#now - began + 1);
  }

  #putRandomness(put: Put): void {
    // The randomness has its own buffer, because the drawn bytes depend on what earlier worlds
    // left.
    const bytes = makeRandom(BYTES_SEED);
    const fill = (buffer: Buffer): Buffer => {
      for (let index = 0; index < buffer.length; index += 1) buffer[index] = bytes() * 256;
      return buffer;
    };
    put(Math, 'random', this.#random);
    put(crypto, 'randomBytes', (size: number) => fill(Buffer.alloc(size)));
    put(crypto, 'randomFillSync', fill);
  }
}

type Callback = (...given: unknown[]) => void;
type Put = (target: object, name: string, value: unknown) => void;

/** The parts of Node's timer object that are used. */
class Timer {
  readonly #entry: Entry;

  constructor(entry: Entry) {
    this.#entry = entry;
  }

  stop(): void {
    this.#entry.isDone = true;
  }

  unref(): this {
    return this;
  }
}

/**
 * Waits until everything that needs no time has happened: a tick comes when no promise is pending. The
 * second one comes after the effects of other ticks.
 */
async function drain(): Promise<void> {
  await new Promise((resolve) => process.nextTick(resolve, undefined));
  await new Promise((resolve) => process.nextTick(resolve, undefined));
}
