import { startActor, type Actor, type Ended } from './service-process.ts';

export interface Kill {
  readonly kind: 'engine' | 'spawner' | 'plugin';
  /** Fault point at which the engine killed itself. */
  readonly point?: string;
  readonly atMs: number;
  /** Job of a killed plugin. */
  readonly jobId?: string;
}

/** An engine that can't start isn't restarted forever. */
const STARTS_FAILED_MAX = 3;

/** Restarts an engine whenever it dies, and records the causes. */
export class Supervisor {
  readonly kills: Kill[] = [];
  /** Unexpected events. */
  readonly faults: string[] = [];
  readonly #start: (faultPoint: string | undefined) => Actor;
  readonly #choosePoint: () => string | undefined;
  readonly #givenUp = new AbortController();
  #actor: Actor | undefined;
  #isWanted = true;
  #wasKilled = false;
  #failed = 0;

  /** `choosePoint` returns the next fault point, if any. */
  constructor(given: string | undefined, directory: string, choosePoint: () => string | undefined) {
    this.#start = (faultPoint) => startActor(given, directory, faultPoint);
    this.#choosePoint = choosePoint;
  }

  /** Aborted if it can't be kept running. */
  get over(): AbortSignal {
    return this.#givenUp.signal;
  }

  get actor(): Actor | undefined {
    return this.#actor;
  }

  async begin(): Promise<void> {
    await this.#launch(undefined).ready;
  }

  killEngine(): void {
    if (this.#actor?.isAlive() !== true) return;
    this.#wasKilled = true;
    this.kills.push({ kind: 'engine', atMs: Date.now() });
    this.#actor.kill();
  }

  killOther(pid: number, kill: Omit<Kill, 'atMs'>): void {
    try {
      process.kill(pid, 'SIGKILL');
      this.kills.push({ ...kill, atMs: Date.now() });
    } catch {
      // It ended before the signal.
    }
  }

  /** Stops it in order, for good. */
  async end(): Promise<void> {
    this.#isWanted = false;
    const ended = await this.#actor?.stop();
    if (ended === undefined || ended.code === 0 || this.over.aborted) return;
    this.faults.push(`the engine did not stop in good order: ${describeExit(ended)}`);
  }

  /** Kills it in any state. */
  async clear(): Promise<void> {
    this.#isWanted = false;
    this.#actor?.kill();
    await this.#actor?.ended;
  }

  #launch(faultPoint: string | undefined): Actor {
    const actor = this.#start(faultPoint);
    this.#actor = actor;
    this.#wasKilled = false;
    let wasReady = false;
    actor.ready.then(
      () => (wasReady = true),
      () => 'how it ended is told below',
    );
    void actor.ended.then((ended) => this.#onEnded(ended, faultPoint, wasReady));
    return actor;
  }

  #onEnded(ended: Ended, faultPoint: string | undefined, wasReady: boolean): void {
    if (!this.#isWanted) return;
    const atPoint = !this.#wasKilled && faultPoint !== undefined && ended.signal === 'SIGKILL';
    if (atPoint) this.kills.push({ kind: 'engine', point: faultPoint, atMs: Date.now() });
    const isFault = !this.#wasKilled && !atPoint;
    if (isFault) this.faults.push(`the engine ended by itself: ${describeExit(ended)}`);
    this.#failed = isFault && !wasReady ? this.#failed + 1 : 0;
    if (this.#failed >= STARTS_FAILED_MAX) this.#givenUp.abort();
    else this.#launch(this.#choosePoint());
  }
}

function describeExit({ code, signal, said }: Ended): string {
  return `${signal ?? `exit code ${code}`}${said === '' ? '' : `, saying ${said.trim()}`}`;
}
