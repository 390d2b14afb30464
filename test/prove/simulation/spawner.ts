/**
 * A spawner and its plugins: separate processes, which continue while the engine is frozen and die
 * with it. Each plugin does what its job's payload says.
 */
import type { JsonObject } from '../../../src/base/json.ts';
import type { Runner } from '../../../src/job/run-plugin.service.ts';
import type { Host, ProcessEnd, StopReason } from '../../../src/plugin/process.ts';
import { between, type Random } from '../../support/crash/random.ts';
import type { Entry } from './agenda.ts';
import type { Checker } from './checker.ts';
import type { Actor, VirtualTime } from './time.ts';

/** The outcome of an attempt: `poison` kills the engine that runs it. */
export const fates = ['ok', 'error', 'exit', 'final', 'garbage', 'hang', 'full', 'poison'] as const;
export type Fate = (typeof fates)[number];

export interface SpawnerOptions {
  readonly time: VirtualTime;
  readonly random: Random;
  readonly actor: Actor;
  readonly checker: Checker;
  readonly onPoison: () => void;
}

interface Attempt {
  readonly jobId: string;
  readonly number: number;
  readonly startedAt: number;
  readonly end: (stopped: StopReason | undefined, more?: Partial<ProcessEnd>) => void;
  entries: Entry[];
}

export class Spawner implements Host {
  readonly kind = 'native';
  readonly #options: SpawnerOptions;
  readonly #attempts = new Set<Attempt>();
  /** The spawner starts nothing once its deadline has passed. */
  refusesLate = true;
  #fenceAt = Infinity;
  #fence: Entry | undefined;

  constructor(options: SpawnerOptions) {
    this.#options = options;
  }

  readonly runner: Runner = {
    run: (plugin, { timeoutMs }, request, { signal }) => {
      const parsed = JSON.parse(request.toString()) as JsonObject;
      return new Promise((resolve) => this.#begin(parsed, { plugin, timeoutMs, signal }, resolve));
    },
    prewarm: () => undefined,
    stop: () => undefined,
  };

  start(): Promise<void> {
    return Promise.resolve();
  }

  run(): never {
    throw new Error('plugins are run by the runner');
  }

  hold(): never {
    throw new Error('nothing is started ahead');
  }

  renew(ms: number): void {
    const { time } = this.#options;
    if (this.#fence !== undefined) this.#fence.isDone = true;
    this.#fenceAt = time.now + ms;
    this.#fence = time.at(this.#fenceAt, undefined, () => this.#killAll('fenced'));
  }

  stop(): Promise<void> {
    this.#killAll('shutdown');
    return Promise.resolve();
  }

  /** The engine is gone, so the ends are not reported. */
  die(): void {
    this.#killAll('shutdown');
    if (this.#fence !== undefined) this.#fence.isDone = true;
  }

  #killAll(reason: StopReason): void {
    for (const attempt of this.#attempts) attempt.end(reason);
  }

  #begin(
    asked: JsonObject,
    { plugin, timeoutMs, signal }: ProcessRequest,
    resolve: (end: ProcessEnd) => void,
  ): void {
    const { time, actor, checker } = this.#options;
    const answer = (end: ProcessEnd): void => void time.after(0, actor, () => resolve(end));
    if (this.refusesLate && time.now >= this.#fenceAt) {
      answer({ ...nothing, exit: refused('ECANCELED', false), stopped: 'fenced' });
      return;
    }
    if (signal?.aborted === true) {
      answer({ ...nothing, stopped: signal.reason as StopReason });
      return;
    }
    const attempt: Attempt = {
      jobId: asked['job_id'] as string,
      number: Number(asked['attempt']),
      startedAt: time.now,
      entries: [],
      end: (stopped, more = {}) => {
        if (!this.#attempts.delete(attempt)) return;
        for (const entry of attempt.entries) entry.isDone = true;
        checker.ended(attempt);
        answer({ ...nothing, runMs: time.now - attempt.startedAt, stopped, ...more });
      },
    };
    this.#attempts.add(attempt);
    checker.started(attempt, plugin.name);
    const later = (ms: number, run: () => void): void =>
      void attempt.entries.push(time.after(ms, undefined, run));
    signal?.addEventListener('abort', () =>
      time.after(0, undefined, () => attempt.end(signal.reason as StopReason)),
    );
    later(timeoutMs, () => attempt.end('timeout'));
    this.#work(asked, attempt, later);
  }

  #work(asked: JsonObject, attempt: Attempt, later: (ms: number, run: () => void) => void): void {
    const { random, checker } = this.#options;
    const payload = asked['payload'] as JsonObject;
    const fate = fateOf(payload, attempt.number);
    const ms = Number(payload['ms'] ?? between(random, 1, 2000));
    if (fate === 'hang') return;
    later(ms, () => {
      if (fate === 'poison') this.#options.onPoison();
      else if (fate === 'full') attempt.end(undefined, { exit: refused('EAGAIN', true) });
      else if (fate === 'exit') attempt.end(undefined, { exit: { kind: 'exited', code: 3 } });
      else {
        const reply = replyOf(fate, asked, payload);
        if (fate === 'ok') checker.promised(attempt, reply);
        attempt.end(undefined, { stdout: Buffer.from(fate === 'garbage' ? '{' : reply.text) });
      }
    });
  }
}

interface ProcessRequest {
  readonly plugin: { readonly name: string };
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

export interface Reply {
  readonly text: string;
  readonly events: number;
}

function replyOf(fate: Fate, asked: JsonObject, payload: JsonObject): Reply {
  if (fate !== 'ok') {
    const reply = { status: 'error', error: 'it failed', retry: fate !== 'final' };
    return { text: JSON.stringify(reply), events: 0 };
  }
  const events = Number(payload['events'] ?? 0);
  const counted = Number((asked['state'] as JsonObject)['count'] ?? 0);
  const text = JSON.stringify({
    status: 'ok',
    result: 'done',
    events: Array.from({ length: events }, (_, index) => ({
      type: 'work.made',
      payload: { index, ms: 5 },
    })),
    ...(asked['instance'] === 'counter' ? { state_updates: { count: counted + 1 } } : {}),
  });
  return { text, events };
}

function refused(code: string, hostFull: boolean): ProcessEnd['exit'] {
  return { kind: 'unstarted', code, hostFull };
}

const nothing: ProcessEnd = {
  exit: { kind: 'exited', code: 0 },
  stopped: undefined,
  pid: 1,
  stdout: Buffer.alloc(0),
  stdoutOverflowed: false,
  stderr: Buffer.alloc(0),
  stderrTruncated: false,
  spawnMs: 0,
  runMs: 0,
  cpuMs: undefined,
  memoryPeakBytes: undefined,
};

/** A full machine recovers, and a plugin that fails at first succeeds later. */
function fateOf(payload: JsonObject, attempt: number): Fate {
  if (attempt <= Number(payload['fails'] ?? 0)) return 'error';
  const fate = (payload['fate'] ?? 'ok') as Fate;
  return fate === 'full' && attempt > FULL_ATTEMPTS ? 'ok' : fate;
}

const FULL_ATTEMPTS = 3;
