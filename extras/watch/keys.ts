/** Key press: a character, the name of a key, or pasted text. */
export type Key = { readonly name: string } | { readonly pasted: string };

export interface KeyReader {
  /** Returns complete keys; the start of a sequence is buffered. */
  read(piece: string): Key[];
  /** True if something is buffered, which may be a single Escape. */
  readonly isWaiting: boolean;
  /** Ends a buffered sequence. */
  flush(): Key[];
}

const ESCAPE = '\u001b';
const PASTE_BEGIN = `${ESCAPE}[200~`;
const PASTE_END = `${ESCAPE}[201~`;

const sequences: ReadonlyMap<string, string> = new Map([
  ['[A', 'up'],
  ['OA', 'up'],
  ['[B', 'down'],
  ['OB', 'down'],
  ['[5~', 'page-up'],
  ['[6~', 'page-down'],
  ['[H', 'home'],
  ['OH', 'home'],
  ['[1~', 'home'],
  ['[F', 'end'],
  ['OF', 'end'],
  ['[4~', 'end'],
  ['[C', 'right'],
  ['OC', 'right'],
  ['[D', 'left'],
  ['OD', 'left'],
  ['[Z', 'back-tab'],
]);

const controls: ReadonlyMap<string, string> = new Map([
  ['\t', 'tab'],
  ['\r', 'enter'],
  ['\n', 'enter'],
  ['\u007f', 'backspace'],
  ['\b', 'backspace'],
  ['\u0003', 'interrupt'],
  ['\u000c', 'redraw'],
  ['\u0015', 'erase'],
  ['\u001a', 'suspend'],
]);

export function makeKeyReader(): KeyReader {
  let rest = '';
  return {
    read(piece) {
      const { keys, left } = readKeys(rest + piece);
      rest = left;
      return keys;
    },
    get isWaiting() {
      return rest !== '';
    },
    flush() {
      const isEscape = rest === ESCAPE;
      // An unfinished paste is still a paste.
      if (rest.startsWith(PASTE_BEGIN)) return [];
      rest = '';
      return isEscape ? [{ name: 'escape' }] : [];
    },
  };
}

// Parameters and a last character; other keys have the same form.
const sequence = /^(?:\[[0-?]*[ -/]*[@-~]|O[ -~])/;
const beginning = /^(?:$|\[[0-?]*[ -/]*$|O$)/;

function readKeys(text: string): { keys: Key[]; left: string } {
  const keys: Key[] = [];
  let left = text;
  while (left !== '') {
    if (left.startsWith(PASTE_BEGIN)) {
      const end = left.indexOf(PASTE_END);
      if (end < 0) return { keys, left };
      keys.push({ pasted: left.slice(PASTE_BEGIN.length, end) });
      left = left.slice(end + PASTE_END.length);
    } else if (left.startsWith(ESCAPE)) {
      const after = left.slice(1);
      const [found] = sequence.exec(after) ?? [];
      if (found === undefined && beginning.test(after)) return { keys, left };
      const name = found === undefined ? 'escape' : sequences.get(found);
      if (name !== undefined) keys.push({ name });
      left = after.slice(found?.length ?? 0);
    } else {
      const [char = ''] = left;
      left = left.slice(char.length);
      const name = controls.get(char) ?? (char < ' ' ? undefined : char);
      if (name !== undefined) keys.push({ name });
    }
  }
  return { keys, left };
}
