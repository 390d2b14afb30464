import { startService, type ServiceProcess, type ServiceExit } from './service-process.ts';

export interface Kill {
  readonly kind: 'engine' | 'spawner' | 'plugin';
  /** Fault point at which the service killed itself. */
  readonly point?: string;
  readonly atMs: number;
  /** Job of a killed plugin. */
  readonly jobId?: string;
}

/** The supervisor gives up after so many starts in a row that failed. */
const STARTS_FAILED_MAX = 3;

/** Restarts the service of a rehearsal whenever it dies, and records the causes. */
export class Supervisor {
  readonly kills: Kill[] = [];
  /** Unexpected events. */
  readonly faults: string[] = [];
  readonly #launchService: (faultPoint: string | undefined) => ServiceProcess;
  readonly #choosePoint: () => string | undefined;
  readonly #gaveUp = new AbortController();
  #service: ServiceProcess | undefined;
  #shouldRun = true;
  #wasKilled = false;
  #failedStarts = 0;

  /** `choosePoint` returns the next fault point, if any. */
  constructor(
    configPath: string | undefined,
    directory: string,
    choosePoint: () => string | undefined,
  ) {
    this.#launchService = (faultPoint) => startService(configPath, directory, faultPoint);
    this.#choosePoint = choosePoint;
  }

  /** Aborted when the service can't be kept running. */
  get gaveUp(): AbortSignal {
    return this.#gaveUp.signal;
  }

  get service(): ServiceProcess | undefined {
    return this.#service;
  }

  async start(): Promise<void> {
    await this.#launch(undefined).ready;
  }

  killService(): void {
    if (this.#service?.isAlive() !== true) return;
    this.#wasKilled = true;
    this.kills.push({ kind: 'engine', atMs: Date.now() });
    this.#service.kill();
  }

  killProcess(pid: number, kill: Omit<Kill, 'atMs'>): void {
    try {
      process.kill(pid, 'SIGKILL');
      this.kills.push({ ...kill, atMs: Date.now() });
    } catch {
      // It ended before the signal.
    }
  }

  /** Stops the service with SIGTERM, and doesn't restart it. */
  async stop(): Promise<void> {
    this.#shouldRun = false;
    const ended = await this.#service?.stop();
    if (ended === undefined || ended.code === 0 || this.gaveUp.aborted) return;
    this.faults.push(`the service did not stop cleanly: ${describeExit(ended)}`);
  }

  /** Kills the service in any state, and doesn't restart it. */
  async kill(): Promise<void> {
    this.#shouldRun = false;
    this.#service?.kill();
    await this.#service?.ended;
  }

  #launch(faultPoint: string | undefined): ServiceProcess {
    const service = this.#launchService(faultPoint);
    this.#service = service;
    this.#wasKilled = false;
    let wasReady = false;
    service.ready.then(
      () => (wasReady = true),
      () => undefined,
    );
    void service.ended.then((ended) => this.#onEnded(ended, faultPoint, wasReady));
    return service;
  }

  #onEnded(ended: ServiceExit, faultPoint: string | undefined, wasReady: boolean): void {
    if (!this.#shouldRun) return;
    const atPoint = !this.#wasKilled && faultPoint !== undefined && ended.signal === 'SIGKILL';
    if (atPoint) this.kills.push({ kind: 'engine', point: faultPoint, atMs: Date.now() });
    const isFault = !this.#wasKilled && !atPoint;
    if (isFault) this.faults.push(`the service ended unexpectedly: ${describeExit(ended)}`);
    this.#failedStarts = isFault && !wasReady ? this.#failedStarts + 1 : 0;
    if (this.#failedStarts >= STARTS_FAILED_MAX) this.#gaveUp.abort();
    else this.#launch(this.#choosePoint());
  }
}

function describeExit({ code, signal, output }: ServiceExit): string {
  return `${signal ?? `exit code ${code}`}${output === '' ? '' : `, output: ${output.trim()}`}`;
}
