import { messageOf } from '../../src/base/errors.ts';
import { readView, readDetails, readOverview } from './read-views.ts';
import type { Call } from './read-views.ts';
import type { Ref, State } from './state.ts';
import type { ScreenEvent } from './apply-event.ts';

/** The start of a job emits no event, so the screen polls while jobs are queued or running. */
const BUSY_POLL_MS = 2000;
const IDLE_POLL_MS = 10_000;
const OVERVIEW_POLL_MS = 3000;

export interface PollerParts {
  readonly call: Call;
  readonly state: () => State;
  readonly apply: (event: ScreenEvent) => void;
  /** Called after each response of the service. */
  readonly onResponse: () => void;
  readonly over: AbortSignal;
}

/** Reads the data of the screen from the service. */
export class Poller {
  readonly #parts: PollerParts;
  #isRefreshing = false;
  #isRequested = false;
  #refreshedAt = 0;
  #overviewAt = 0;

  constructor(parts: PollerParts) {
    this.#parts = parts;
  }

  /** Reads now. A call during a read triggers one more read. */
  refresh(): void {
    this.#isRequested = true;
    if (!this.#isRefreshing) void this.#refreshLoop();
  }

  /** Reads if the poll interval has passed. */
  refreshIfDue(): void {
    const { data, pendingData, link } = this.#parts.state();
    const { running = 0, queued = 0 } = (pendingData ?? data).overview;
    const isBusy = running + queued > 0 || link !== 'live';
    const age = performance.now() - this.#refreshedAt;
    if (age >= (isBusy ? BUSY_POLL_MS : IDLE_POLL_MS)) this.refresh();
  }

  async #refreshLoop(): Promise<void> {
    const { apply, onResponse, over } = this.#parts;
    this.#isRefreshing = true;
    while (this.#isRequested && !over.aborted) {
      this.#isRequested = false;
      this.#refreshedAt = performance.now();
      try {
        await this.#refreshOnce();
        onResponse();
      } catch (thrown) {
        apply({ kind: 'link', link: 'lost', note: messageOf(thrown) });
      }
    }
    this.#isRefreshing = false;
  }

  async #refreshOnce(): Promise<void> {
    const { call, apply, state } = this.#parts;
    const { view, details } = state();
    if (details !== undefined) await this.#refreshDetails(details.ref);
    apply({ kind: 'part', view, part: await readView(view, call) });
    if (performance.now() - this.#overviewAt < OVERVIEW_POLL_MS) return;
    this.#overviewAt = performance.now();
    apply({ kind: 'overview', overview: await readOverview(call) });
  }

  async #refreshDetails(ref: Ref): Promise<void> {
    const { call, apply } = this.#parts;
    try {
      apply({ kind: 'details', ref, outcome: { results: await readDetails(ref, call) } });
    } catch (thrown) {
      apply({ kind: 'details', ref, outcome: { problem: messageOf(thrown) } });
    }
  }
}
