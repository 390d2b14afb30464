import { messageOf } from '../../src/base/errors.ts';
import { serverNeeded, findTarget } from '../../src/cli/call-operation.ts';
import { HttpCaller } from '../../src/cli/callers.ts';
import type { CommonFlags, CliSession } from '../../src/cli/host.ts';
import { nameTarget, type ServerTarget } from '../../src/cli/transport.ts';
import { listOf } from '../../src/cli/view-parts.ts';
import { makeKeyReader } from './keys.ts';
import { renderScreen } from './render-screen.ts';
import { failureStatuses, readOverview, type Call } from './read-views.ts';
import { Poller } from './poller.ts';
import {
  createState,
  type Action,
  type EndCounts,
  type Link,
  type State,
  type Effect,
} from './state.ts';
import { applyEvent, type ScreenEvent } from './apply-event.ts';
import { followEvents } from './stream.ts';
import { Terminal } from './terminal.ts';

const DRAW_MS = 100;
const ESCAPE_MS = 50;

/** Shows a service in the terminal, until the user quits. */
export async function showScreen(session: CliSession, options: CommonFlags): Promise<number> {
  const find = async (): Promise<ServerTarget> => {
    const target = await findTarget(session, options);
    if (target === undefined) throw serverNeeded('watch');
    return target;
  };
  const call: Call = async (name, input) => new HttpCaller(await find()).call(name, input);
  const serviceName = nameTarget(await find());
  // A problem at the start is reported like that of any other command.
  const overview = await readOverview(call);
  const screen = new Screen({ session, options, serviceName, call });
  screen.apply({ kind: 'overview', overview });
  return screen.run(find);
}

interface ScreenParts {
  readonly session: CliSession;
  readonly options: CommonFlags;
  readonly serviceName: string;
  readonly call: Call;
}

class Screen {
  readonly #parts: ScreenParts;
  readonly #terminal: Terminal;
  readonly #poller: Poller;
  readonly #keys = makeKeyReader();
  readonly #quit = new AbortController();
  #state: State;
  #drawing: NodeJS.Timeout | undefined;
  #escaping: NodeJS.Timeout | undefined;
  #streamLink: Link = 'connecting';
  #drawnAt = 0;
  #endCounts: EndCounts = { good: 0, bad: 0 };

  constructor(parts: ScreenParts) {
    this.#parts = parts;
    const { io } = parts.session;
    this.#terminal = new Terminal(
      {
        typed: (text) => this.#type(text),
        resized: () => this.apply({ kind: 'size', size: this.#terminal.size }),
        resumed: () => this.apply({ kind: 'size', size: this.#terminal.size }),
        ended: () => this.#quit.abort(),
      },
      io.hasColors && parts.options.color !== false,
    );
    this.#poller = new Poller({
      call: parts.call,
      state: () => this.#state,
      apply: (event) => this.apply(event),
      // The stream may be live although a read has failed.
      onResponse: () => {
        if (this.#state.link === 'lost' && this.#streamLink === 'live') this.#connect('live');
      },
      over: this.#quit.signal,
    });
    this.#state = createState(parts.serviceName, this.#terminal.size, io.now());
  }

  async run(find: () => Promise<ServerTarget>): Promise<number> {
    const { io } = this.#parts.session;
    const over = AbortSignal.any([this.#quit.signal, io.interruption()]);
    const second = setInterval(() => this.#tick(), 1000);
    this.#terminal.enter();
    try {
      this.#poller.refresh();
      this.#draw();
      void followEvents(
        { findTarget: find, pause: (ms, signal) => io.pause(ms, signal) },
        {
          event: (type, count) => this.#countEnds(type, count),
          link: (link, note) => this.#connect(link, note),
        },
        over,
      );
      await new Promise<void>((resolve) => {
        if (over.aborted) resolve();
        else over.addEventListener('abort', () => resolve());
      });
    } finally {
      clearInterval(second);
      clearTimeout(this.#drawing);
      clearTimeout(this.#escaping);
      this.#terminal.leave();
    }
    // Don't wait for responses that are still pending.
    io.exit(0);
    return 0;
  }

  apply(event: ScreenEvent): void {
    const { state, effect } = applyEvent(this.#state, event);
    this.#state = state;
    if (effect !== undefined) this.#perform(effect);
    this.#drawSoon();
  }

  #perform(effect: Effect): void {
    switch (effect.kind) {
      case 'quit':
        return this.#quit.abort();
      case 'suspend':
        return this.#terminal.suspend();
      case 'redraw':
        return this.#terminal.forget();
      case 'refresh':
      case 'details':
        return this.#poller.refresh();
      case 'plan':
        return void this.#plan(effect.action);
      case 'action':
        return void this.#runAction(effect.action);
    }
  }

  #type(text: string): void {
    clearTimeout(this.#escaping);
    for (const key of this.#keys.read(text)) this.apply({ kind: 'key', key });
    if (!this.#keys.isWaiting) return;
    this.#escaping = setTimeout(() => {
      for (const key of this.#keys.flush()) this.apply({ kind: 'key', key });
    }, ESCAPE_MS);
  }

  /** Draws now, or when the last drawing is old enough. */
  #drawSoon(): void {
    const waitMs = Math.max(0, this.#drawnAt + DRAW_MS - performance.now());
    this.#drawing ??= setTimeout(() => this.#draw(), waitMs);
  }

  #draw(): void {
    clearTimeout(this.#drawing);
    this.#drawing = undefined;
    this.#drawnAt = performance.now();
    this.#terminal.draw(renderScreen(this.#state));
  }

  #connect(link: Link, note = ''): void {
    this.#streamLink = link;
    this.apply({ kind: 'link', link, note });
    if (link === 'live') this.#poller.refresh();
  }

  #countEnds(type: string, count: number): void {
    const { good, bad } = this.#endCounts;
    const status = type.startsWith('job.') ? type.slice('job.'.length) : '';
    if (status === 'succeeded') this.#endCounts = { good: good + count, bad };
    else if (failureStatuses.includes(status)) this.#endCounts = { good, bad: bad + count };
    this.#poller.refresh();
  }

  #tick(): void {
    this.apply({ kind: 'second', nowMs: this.#parts.session.io.now(), endCounts: this.#endCounts });
    this.#endCounts = { good: 0, bad: 0 };
    this.#poller.refreshIfDue();
  }

  async #plan(action: Action): Promise<void> {
    try {
      const { plan } = await this.#parts.call(action.operation, { id: action.id, dry_run: true });
      this.apply({ kind: 'plan', action, plan: listOf(plan).map(String) });
    } catch (thrown) {
      this.#report(action, messageOf(thrown), true);
    }
  }

  async #runAction(action: Action): Promise<void> {
    try {
      await this.#parts.call(action.operation, { id: action.id });
      this.#report(action, `Done: ${action.label}`, false);
    } catch (thrown) {
      this.#report(action, messageOf(thrown), true);
    }
    this.#poller.refresh();
  }

  #report(action: Action, text: string, isError: boolean): void {
    this.apply({ kind: 'done', action, notice: { text, isError } });
  }
}
