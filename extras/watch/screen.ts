import { messageOf } from '../../src/base/errors.ts';
import { serverNeeded } from '../../src/cli/ask.ts';
import { HttpCaller } from '../../src/cli/callers.ts';
import { findTarget } from '../../src/cli/options.ts';
import type { CommonFlags, CliSession } from '../../src/cli/host.ts';
import { nameTarget } from '../../src/cli/transport.ts';
import type { ServerTarget } from '../../src/cli/transport.ts';
import { listOf } from '../../src/cli/view-parts.ts';
import { makeKeyReader } from './keys.ts';
import { screenLines } from './lines.ts';
import { badEnds, lookOver } from './read-views.ts';
import type { Call } from './read-views.ts';
import { Looker } from './poller.ts';
import { beginState } from './state.ts';
import type { Act, Ends, Link, State, Wish } from './state.ts';
import { step } from './apply-event.ts';
import type { Happening } from './apply-event.ts';
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
  const where = nameTarget(await find());
  // Problems at the start are reported like those of every command.
  const overview = await lookOver(call);
  const screen = new Screen({ session, options, where, call });
  screen.take({ kind: 'overview', overview });
  return screen.run(find);
}

interface ScreenParts {
  readonly session: CliSession;
  readonly options: CommonFlags;
  readonly where: string;
  readonly call: Call;
}

class Screen {
  readonly #parts: ScreenParts;
  readonly #terminal: Terminal;
  readonly #looker: Looker;
  readonly #keys = makeKeyReader();
  readonly #quit = new AbortController();
  #state: State;
  #drawing: NodeJS.Timeout | undefined;
  #escaping: NodeJS.Timeout | undefined;
  #streamLink: Link = 'connecting';
  #drawnAt = 0;
  #ends: Ends = { good: 0, bad: 0 };

  constructor(parts: ScreenParts) {
    this.#parts = parts;
    const { io } = parts.session;
    this.#terminal = new Terminal(
      {
        typed: (text) => this.#type(text),
        resized: () => this.take({ kind: 'size', size: this.#terminal.size }),
        resumed: () => this.take({ kind: 'size', size: this.#terminal.size }),
        ended: () => this.#quit.abort(),
      },
      io.hasColors && parts.options.color !== false,
    );
    this.#looker = new Looker({
      call: parts.call,
      state: () => this.#state,
      take: (happening) => this.take(happening),
      // A failed read doesn't end the stream.
      answered: () => {
        if (this.#state.link === 'lost' && this.#streamLink === 'live') this.#connect('live');
      },
      over: this.#quit.signal,
    });
    this.#state = beginState(parts.where, this.#terminal.size, io.now());
  }

  async run(find: () => Promise<ServerTarget>): Promise<number> {
    const { io } = this.#parts.session;
    const over = AbortSignal.any([this.#quit.signal, io.interruption()]);
    const second = setInterval(() => this.#beat(), 1000);
    this.#terminal.enter();
    try {
      this.#looker.look();
      this.#draw();
      void followEvents(
        { findTarget: find, pause: (ms, signal) => io.pause(ms, signal) },
        {
          event: (type, count) => this.#hear(type, count),
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

  take(happening: Happening): void {
    const { state, wish } = step(this.#state, happening);
    this.#state = state;
    if (wish !== undefined) this.#grant(wish);
    this.#drawSoon();
  }

  #grant(wish: Wish): void {
    switch (wish.kind) {
      case 'quit':
        return this.#quit.abort();
      case 'suspend':
        return this.#terminal.suspend();
      case 'redraw':
        return this.#terminal.forget();
      case 'look':
      case 'details':
        return this.#looker.look();
      case 'plan':
        return void this.#plan(wish.act);
      case 'act':
        return void this.#act(wish.act);
    }
  }

  #type(text: string): void {
    clearTimeout(this.#escaping);
    for (const key of this.#keys.read(text)) this.take({ kind: 'key', key });
    if (!this.#keys.isWaiting) return;
    this.#escaping = setTimeout(() => {
      for (const key of this.#keys.flush()) this.take({ kind: 'key', key });
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
    this.#terminal.draw(screenLines(this.#state));
  }

  #connect(link: Link, note = ''): void {
    this.#streamLink = link;
    this.take({ kind: 'link', link, note });
    if (link === 'live') this.#looker.look();
  }

  #hear(type: string, count: number): void {
    const { good, bad } = this.#ends;
    const status = type.startsWith('job.') ? type.slice('job.'.length) : '';
    if (status === 'succeeded') this.#ends = { good: good + count, bad };
    else if (badEnds.includes(status)) this.#ends = { good, bad: bad + count };
    this.#looker.look();
  }

  #beat(): void {
    this.take({ kind: 'second', nowMs: this.#parts.session.io.now(), ends: this.#ends });
    this.#ends = { good: 0, bad: 0 };
    this.#looker.lookInTime();
  }

  async #plan(act: Act): Promise<void> {
    try {
      const { plan } = await this.#parts.call(act.operation, { id: act.id, dry_run: true });
      this.take({ kind: 'plan', act, plan: listOf(plan).map(String) });
    } catch (thrown) {
      this.#showNotice(act, messageOf(thrown), true);
    }
  }

  async #act(act: Act): Promise<void> {
    try {
      await this.#parts.call(act.operation, { id: act.id });
      this.#showNotice(act, `Done: ${act.says}`, false);
    } catch (thrown) {
      this.#showNotice(act, messageOf(thrown), true);
    }
    this.#looker.look();
  }

  #showNotice(act: Act, text: string, isBad: boolean): void {
    this.take({ kind: 'done', act, notice: { text, isBad } });
  }
}
