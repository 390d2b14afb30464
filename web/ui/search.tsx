import { useEffect, useRef, useState } from 'preact/hooks';
import { nouns } from '../nouns.ts';
import { findEntries, type Entry } from '../text/find.ts';
import { findById, nothing, readNames, type Names } from './find.ts';
import { go } from './go.ts';
import { Icon } from './icons.tsx';
import { Text } from './text.tsx';

/** Finds pages, names and ids; `/` and Ctrl-K open it. */
export function Search() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  const [names, setNames] = useState<Names>(nothing);
  const open = (): void => {
    setWords('');
    setAt(0);
    dialog.current?.showModal();
    void readNames().then(setNames);
  };
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const isCtrlK = event.key === 'k' && (event.ctrlKey || event.metaKey);
      if (!isCtrlK && (event.key !== '/' || isTyping(event.target))) return;
      event.preventDefault();
      if (dialog.current?.open !== true) open();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
  const entries = useEntries(words, names);
  const choose = (entry: Entry | undefined): void => {
    if (entry === undefined) return;
    dialog.current?.close();
    go(entry.href);
  };
  const press = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      setAt((at + step + entries.length) % Math.max(1, entries.length));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      choose(entries[at]);
    }
  };
  return (
    <>
      <button type="button" class="search-button" onClick={open}>
        <Icon name="search" />
        <span>Search</span>
        <kbd aria-hidden="true">/</kbd>
      </button>
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
          }}
          onKeyDown={press}
        />
        <Found entries={entries} at={at} point={setAt} choose={choose} />
        {entries.length === 0 && <p class="soft pad">Nothing is called so.</p>}
      </dialog>
    </>
  );
}

/** What the words could mean; once the server has said what an id is of, that alone for it. */
function useEntries(words: string, names: Names): readonly Entry[] {
  const [found, setFound] = useState<Entry>();
  useEffect(() => {
    setFound(undefined);
    return findById(words, setFound);
  }, [words]);
  const named = findEntries(words, { pages: nouns, ...names });
  return found === undefined ? named : [found, ...named.filter(({ kind }) => kind !== 'id')];
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
