import { messageOf } from '../../src/base/errors.ts';
import { lookAt, lookInto, lookOver } from './read-views.ts';
import type { Call } from './read-views.ts';
import type { Ref, State } from './state.ts';
import type { Happening } from './apply-event.ts';

/** Starts emit no event, so poll while something is open. */
const OPEN_LOOK_MS = 2000;
const IDLE_LOOK_MS = 10_000;
const OVERVIEW_MS = 3000;

export interface LookerParts {
  readonly call: Call;
  readonly state: () => State;
  readonly take: (happening: Happening) => void;
  /** Called after each response of the service. */
  readonly answered: () => void;
  readonly over: AbortSignal;
}

/** Reads from the service what the screen shows. */
export class Looker {
  readonly #parts: LookerParts;
  #isLooking = false;
  #isWanted = false;
  #lookedAt = 0;
  #overviewAt = 0;

  constructor(parts: LookerParts) {
    this.#parts = parts;
  }

  /** Reads once at a time; a request meanwhile triggers one more read. */
  look(): void {
    this.#isWanted = true;
    if (!this.#isLooking) void this.#lookOn();
  }

  /** Reads when the interval has passed. */
  lookInTime(): void {
    const { known, held, link } = this.#parts.state();
    const { running = 0, queued = 0 } = (held ?? known).overview;
    const isBusy = running + queued > 0 || link !== 'live';
    const age = performance.now() - this.#lookedAt;
    if (age >= (isBusy ? OPEN_LOOK_MS : IDLE_LOOK_MS)) this.look();
  }

  async #lookOn(): Promise<void> {
    const { take, answered, over } = this.#parts;
    this.#isLooking = true;
    while (this.#isWanted && !over.aborted) {
      this.#isWanted = false;
      this.#lookedAt = performance.now();
      try {
        await this.#lookOnce();
        answered();
      } catch (thrown) {
        take({ kind: 'link', link: 'lost', note: messageOf(thrown) });
      }
    }
    this.#isLooking = false;
  }

  async #lookOnce(): Promise<void> {
    const { call, take, state } = this.#parts;
    const { view, details } = state();
    if (details !== undefined) await this.#readDetails(details.ref);
    take({ kind: 'part', view, part: await lookAt(view, call) });
    if (performance.now() - this.#overviewAt < OVERVIEW_MS) return;
    this.#overviewAt = performance.now();
    take({ kind: 'overview', overview: await lookOver(call) });
  }

  async #readDetails(ref: Ref): Promise<void> {
    const { call, take } = this.#parts;
    try {
      take({ kind: 'details', ref, told: { answers: await lookInto(ref, call) } });
    } catch (thrown) {
      take({ kind: 'details', ref, told: { problem: messageOf(thrown) } });
    }
  }
}
