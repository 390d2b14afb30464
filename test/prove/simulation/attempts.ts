/** The processes that were really started, to compare with the rows. */
import type { Accuse } from './checker.ts';
import type { Reply } from './spawner.ts';

export interface Running {
  readonly jobId: string;
  readonly number: number;
}

export class AttemptBook {
  count = 0;
  readonly #accuse: Accuse;
  readonly #live = new Map<string, Running>();
  readonly #begun = new Set<string>();
  readonly #promised = new Map<string, Reply>();

  constructor(accuse: Accuse) {
    this.#accuse = accuse;
  }

  get live(): number {
    return this.#live.size;
  }

  started(running: Running, plugin: string): void {
    this.count += 1;
    const { jobId } = running;
    const key = keyOf(jobId, running.number);
    if (this.#live.has(jobId)) this.#accuse('I5', `${plugin} ${jobId} runs twice at one time`);
    if (this.#begun.has(key)) this.#accuse('I4', `attempt ${key} of ${plugin} was begun twice`);
    this.#begun.add(key);
    this.#live.set(jobId, running);
  }

  ended(running: Running): void {
    if (this.#live.get(running.jobId) === running) this.#live.delete(running.jobId);
  }

  /** The attempt succeeded and has sent its reply. */
  promised({ jobId, number }: Running, reply: Reply): void {
    this.#promised.set(keyOf(jobId, number), reply);
  }

  promiseOf(jobId: string, attempt: number): Reply | undefined {
    return this.#promised.get(keyOf(jobId, attempt));
  }
}

function keyOf(jobId: string, attempt: number): string {
  return `${jobId} ${attempt}`;
}
