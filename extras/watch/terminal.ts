import { writeLine } from './spans.ts';
import type { Line } from './spans.ts';
import type { Size } from './state.ts';

export interface TerminalEvents {
  typed(text: string): void;
  resized(): void;
  /** The process was resumed; the terminal may show other output. */
  resumed(): void;
  /** The terminal or the parent process ends the program. */
  ended(): void;
}

const ESCAPE = '\u001b[';
/** Alternate screen, no cursor, no line wrapping, bracketed paste. */
const ENTER = ['?1049h', '?25l', '?7l', '?2004h', '2J'].map((code) => ESCAPE + code).join('');
const LEAVE = ['0m', '?2004l', '?7h', '?25h', '?1049l'].map((code) => ESCAPE + code).join('');

const RESUME_CHECK_MS = 100;

/** Controls the terminal of this process until `leave`, which also runs when the process ends. */
export class Terminal {
  readonly #events: TerminalEvents;
  readonly #hasColors: boolean;
  #shown: string[] = [];
  #isActive = false;

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
    process.on('exit', this.#restore);
    process.on('SIGTSTP', this.suspend);
    process.on('SIGCONT', this.#resume);
    process.on('SIGHUP', this.#end);
    process.stdout.on('resize', this.#resize);
    process.stdin.setEncoding('utf8');
    process.stdin.on('data', this.#type);
    process.stdin.on('end', this.#end);
    process.stdin.on('error', this.#end);
    this.#takeOver();
    process.stdin.resume();
  }

  leave(): void {
    this.#restore();
    process.off('exit', this.#restore);
    process.off('SIGTSTP', this.suspend);
    process.off('SIGCONT', this.#resume);
    process.off('SIGHUP', this.#end);
    process.stdout.off('resize', this.#resize);
    process.stdin.off('data', this.#type);
    process.stdin.off('end', this.#end);
    process.stdin.off('error', this.#end);
    process.stdin.pause();
  }

  /** Writes the lines that have changed. */
  draw(lines: readonly Line[]): void {
    if (!this.#isActive) return;
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
    if (this.#isActive) process.stdout.write(`${ESCAPE}2J`);
  }

  /** Suspends the process group, as Ctrl-Z does. */
  readonly suspend = (): void => {
    this.#restore();
    process.off('SIGTSTP', this.suspend);
    process.kill(0, 'SIGTSTP');
    process.on('SIGTSTP', this.suspend);
    // Without a shell the process can't be stopped, and gets no signal to resume.
    setTimeout(() => {
      if (!this.#isActive) this.#resume();
    }, RESUME_CHECK_MS);
  };

  readonly #takeOver = (): void => {
    // Another program may have changed the mode, which Node doesn't notice.
    process.stdin.setRawMode(false);
    process.stdin.setRawMode(true);
    process.stdout.write(ENTER);
    this.#shown = [];
    this.#isActive = true;
  };

  readonly #restore = (): void => {
    if (!this.#isActive) return;
    this.#isActive = false;
    process.stdout.write(LEAVE);
    process.stdin.setRawMode(false);
  };

  readonly #resume = (): void => {
    this.#takeOver();
    this.#events.resumed();
  };

  readonly #resize = (): void => {
    this.forget();
    this.#events.resized();
  };

  readonly #type = (text: string): void => this.#events.typed(text);
  readonly #end = (): void => this.#events.ended();
}
