import { useEffect, useRef, useState } from 'preact/hooks';
import { nouns } from '../nouns.ts';
import { findEntries, type Entry } from '../text/search.ts';
import { findById, notAsked, nothing, readNames, type Names, type Sought } from './search-source.ts';
import { go } from './navigate.ts';
import { Icon } from './icons.tsx';
import { Text } from './text.tsx';

/** Finds pages, names and ids; `/` and Ctrl-K open it. */
export function Search() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  const [names, setNames] = useState<Names>(nothing);
  // Whoever does not wait for what the server says goes where it leads.
  const [isHurried, setHurried] = useState(false);
  const open = (): void => {
    setWords('');
    setAt(0);
    setHurried(false);
    dialog.current?.showModal();
    void readNames().then(setNames);
  };
  useKey(() => {
    if (dialog.current?.open !== true) open();
  });
  const sought = useSought(words);
  const named = findEntries(words, { pages: nouns, ...names });
  const entries = sought.found === undefined ? named : [sought.found, ...named];
  const choose = (entry: Entry | undefined): void => {
    if (entry === undefined) return;
    dialog.current?.close();
    go(entry.href);
  };
  useEffect(() => {
    if (isHurried && dialog.current?.open === true) choose(sought.found);
  }, [isHurried, sought.found]);
  const press = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      setAt((at + step + entries.length) % Math.max(1, entries.length));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      setHurried(entries.length === 0);
      choose(entries[at]);
    }
  };
  return (
    <>
      <OpenButton open={open} />
      <dialog ref={dialog} class="search" aria-label="Search">
        <input
          type="text"
          role="combobox"
          list={undefined}
          aria-label="Page, name or id"
          aria-expanded="true"
          aria-controls="found"
          {...(entries.length > 0 ? { 'aria-activedescendant': `found-${at}` } : {})}
          placeholder="Page, name or id"
          value={words}
          onInput={(event) => {
            setWords(event.currentTarget.value);
            setAt(0);
            setHurried(false);
          }}
          onKeyDown={press}
        />
        <Found entries={entries} at={at} point={setAt} choose={choose} />
        <p class="soft pad" role="status" hidden={entries.length > 0}>
          <Text value={entries.length > 0 ? '' : tell(sought)} />
        </p>
      </dialog>
    </>
  );
}

function OpenButton({ open }: { readonly open: () => void }) {
  return (
    <button type="button" class="search-button" onClick={open}>
      <Icon name="search" />
      <span>Search</span>
      <kbd aria-hidden="true">/</kbd>
    </button>
  );
}

function useKey(open: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const isCtrlK = event.key === 'k' && (event.ctrlKey || event.metaKey);
      if (!isCtrlK && (event.key !== '/' || isTyping(event.target))) return;
      event.preventDefault();
      open();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

function tell({ isAsking, why }: Sought): string {
  return isAsking ? 'Looking for this id…' : (why ?? 'Nothing is called so.');
}

/** What the server says an id is of; what was said of other words does not count. */
function useSought(words: string): Sought {
  const [{ of, sought }, setSought] = useState({ of: '', sought: notAsked });
  useEffect(() => findById(words, (told) => setSought({ of: words, sought: told })), [words]);
  return of === words ? sought : notAsked;
}

interface FoundProps {
  readonly entries: readonly Entry[];
  readonly at: number;
  readonly point: (at: number) => void;
  readonly choose: (entry: Entry) => void;
}

function Found({ entries, at, point, choose }: FoundProps) {
  return (
    <ul id="found" role="listbox" aria-label="Found">
      {entries.map((entry, index) => (
        <li
          id={`found-${index}`}
          role="option"
          aria-selected={index === at}
          onMouseMove={() => point(index)}
          onClick={() => choose(entry)}
        >
          <Text value={entry.title} />
          <span class="soft">{entry.kind}</span>
        </li>
      ))}
    </ul>
  );
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('input, textarea, select, dialog') !== null;
}
