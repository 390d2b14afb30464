import { writeLine } from './spans.ts';
import type { Line } from './spans.ts';
import type { Size } from './state.ts';

export interface TerminalEvents {
  typed(text: string): void;
  resized(): void;
  /** The terminal was given back to us, with anything on it. */
  resumed(): void;
  /** The terminal, or whoever started us, wants an end. */
  ended(): void;
}

const ESCAPE = '\u001b[';
/** Another screen, no cursor, no wrapping of lines that turn out wider than thought, marked pastes. */
const ENTER = ['?1049h', '?25l', '?7l', '?2004h', '2J'].map((code) => ESCAPE + code).join('');
const LEAVE = ['0m', '?2004l', '?7h', '?25h', '?1049l'].map((code) => ESCAPE + code).join('');

const UNSTOPPED_MS = 100;

/** The terminal of this process, taken over until `leave`, which also happens when it ends otherwise. */
export class Terminal {
  readonly #events: TerminalEvents;
  readonly #hasColors: boolean;
  #shown: string[] = [];
  #isOurs = false;

  constructor(events: TerminalEvents, hasColors: boolean) {
    this.#events = events;
    this.#hasColors = hasColors;
  }

  get size(): Size {
    const { columns, rows } = process.stdout;
    // A terminal that was never told its size says 0.
    return { columns: columns > 0 ? columns : 80, rows: rows > 0 ? rows : 24 };
  }

  enter(): void {
    process.on('exit', this.#giveBack);
    process.on('SIGTSTP', this.suspend);
    process.on('SIGCONT', this.#takeBack);
    process.on('SIGHUP', this.#end);
    process.stdout.on('resize', this.#resize);
    process.stdin.setEncoding('utf8');
    process.stdin.on('data', this.#type);
    process.stdin.on('end', this.#end);
    process.stdin.on('error', this.#end);
    this.#take();
    process.stdin.resume();
  }

  leave(): void {
    this.#giveBack();
    process.off('exit', this.#giveBack);
    process.off('SIGTSTP', this.suspend);
    process.off('SIGCONT', this.#takeBack);
    process.off('SIGHUP', this.#end);
    process.stdout.off('resize', this.#resize);
    process.stdin.off('data', this.#type);
    process.stdin.off('end', this.#end);
    process.stdin.off('error', this.#end);
    process.stdin.pause();
  }

  /** Writes the lines that are not on the screen already. */
  draw(lines: readonly Line[]): void {
    if (!this.#isOurs) return;
    const { columns } = this.size;
    let text = '';
    const next = lines.map((spans) => writeLine(spans, columns, this.#hasColors));
    for (const [at, line] of next.entries()) {
      if (this.#shown[at] === line) continue;
      // Cleared first: behind a full line the cursor stands on its last character.
      text += `${ESCAPE}${at + 1};1H${ESCAPE}K${line}`;
    }
    this.#shown = next;
    if (text !== '') process.stdout.write(text);
  }

  /** The next drawing is of everything. */
  forget(): void {
    this.#shown = [];
    if (this.#isOurs) process.stdout.write(`${ESCAPE}2J`);
  }

  /** As Ctrl-Z does it to any program: the whole job stops, and goes on where it was. */
  readonly suspend = (): void => {
    this.#giveBack();
    process.off('SIGTSTP', this.suspend);
    process.kill(0, 'SIGTSTP');
    process.on('SIGTSTP', this.suspend);
    // What has no shell above it cannot be stopped, and so is not told that it goes on.
    setTimeout(() => {
      if (!this.#isOurs) this.#takeBack();
    }, UNSTOPPED_MS);
  };

  readonly #take = (): void => {
    // Somebody else may have changed the mode meanwhile, of which our own note of it knows nothing.
    process.stdin.setRawMode(false);
    process.stdin.setRawMode(true);
    process.stdout.write(ENTER);
    this.#shown = [];
    this.#isOurs = true;
  };

  readonly #giveBack = (): void => {
    if (!this.#isOurs) return;
    this.#isOurs = false;
    process.stdout.write(LEAVE);
    process.stdin.setRawMode(false);
  };

  readonly #takeBack = (): void => {
    this.#take();
    this.#events.resumed();
  };

  readonly #resize = (): void => {
    this.forget();
    this.#events.resized();
  };

  readonly #type = (text: string): void => this.#events.typed(text);
  readonly #end = (): void => this.#events.ended();
}
