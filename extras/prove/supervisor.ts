import { startActor, type Actor, type Ended } from './actor.ts';

export interface Kill {
  readonly kind: 'engine' | 'spawner' | 'plugin';
  /** The named place in the program at which the engine ended itself. */
  readonly point?: string;
  readonly atMs: number;
  /** Of a plugin: whose attempt it was. */
  readonly jobId?: string;
}

/** An engine that cannot be started is not started for ever. */
const STARTS_FAILED_MAX = 3;

/** Keeps an engine running, however often it dies, and remembers of what. */
export class Supervisor {
  readonly kills: Kill[] = [];
  /** What should not have happened to it. */
  readonly faults: string[] = [];
  readonly #start: (faultPoint: string | undefined) => Actor;
  readonly #choosePoint: () => string | undefined;
  readonly #givenUp = new AbortController();
  #actor: Actor | undefined;
  #isWanted = true;
  #wasKilled = false;
  #failed = 0;

  /** `choosePoint` says where the next one is to end itself, if anywhere. */
  constructor(given: string | undefined, directory: string, choosePoint: () => string | undefined) {
    this.#start = (faultPoint) => startActor(given, directory, faultPoint);
    this.#choosePoint = choosePoint;
  }

  /** Aborted when it cannot be kept running. */
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
      // It ended between the look and the signal.
    }
  }

  /** In good order, and for good. */
  async end(): Promise<void> {
    this.#isWanted = false;
    const ended = await this.#actor?.stop();
    if (ended === undefined || ended.code === 0 || this.over.aborted) return;
    this.faults.push(`the engine did not stop in good order: ${tell(ended)}`);
  }

  /** Whatever state it is in. */
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
    if (isFault) this.faults.push(`the engine ended by itself: ${tell(ended)}`);
    this.#failed = isFault && !wasReady ? this.#failed + 1 : 0;
    if (this.#failed >= STARTS_FAILED_MAX) this.#givenUp.abort();
    else this.#launch(this.#choosePoint());
  }
}

function tell({ code, signal, said }: Ended): string {
  return `${signal ?? `exit code ${code}`}${said === '' ? '' : `, saying ${said.trim()}`}`;
}
