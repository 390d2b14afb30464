import { writeLine } from './spans.ts';
import type { Line } from './spans.ts';
import type { Size } from './state.ts';

export interface TerminalEvents {
  typed(text: string): void;
  resized(): void;
  /** The terminal was resumed and may show anything. */
  resumed(): void;
  /** The terminal or the parent process ends the program. */
  ended(): void;
}

const ESCAPE = '\u001b[';
/** Alternate screen, no cursor, no line wrapping, bracketed paste. */
const ENTER = ['?1049h', '?25l', '?7l', '?2004h', '2J'].map((code) => ESCAPE + code).join('');
const LEAVE = ['0m', '?2004l', '?7h', '?25h', '?1049l'].map((code) => ESCAPE + code).join('');

const UNSTOPPED_MS = 100;

/** Controls the terminal of this process until `leave`, which also runs when the process ends. */
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
    // A terminal without a known size reports 0.
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

  /** Writes the lines that have changed. */
  draw(lines: readonly Line[]): void {
    if (!this.#isOurs) return;
    const { columns } = this.size;
    let text = '';
    const next = lines.map((spans) => writeLine(spans, columns, this.#hasColors));
    for (const [at, line] of next.entries()) {
      if (this.#shown[at] === line) continue;
      // Clear first: after a full line the cursor is on its last character.
      text += `${ESCAPE}${at + 1};1H${ESCAPE}K${line}`;
    }
    this.#shown = next;
    if (text !== '') process.stdout.write(text);
  }

  /** Redraws everything next time. */
  forget(): void {
    this.#shown = [];
    if (this.#isOurs) process.stdout.write(`${ESCAPE}2J`);
  }

  /** Suspends the whole job like Ctrl-Z, and resumes where it was. */
  readonly suspend = (): void => {
    this.#giveBack();
    process.off('SIGTSTP', this.suspend);
    process.kill(0, 'SIGTSTP');
    process.on('SIGTSTP', this.suspend);
    // Without a shell the process can't be stopped, and gets no signal to resume.
    setTimeout(() => {
      if (!this.#isOurs) this.#takeBack();
    }, UNSTOPPED_MS);
  };

  readonly #take = (): void => {
    // Another program may have changed the mode, which Node doesn't notice.
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
