import { useEffect, useRef, useState } from 'preact/hooks';
import { nouns } from '../nouns.ts';
import { findEntries, type Entry } from '../text/search.ts';
import {
  findById,
  noLookup,
  nothing,
  readNames,
  type Names,
  type IdLookup,
} from './search-source.ts';
import { navigate } from './navigate.ts';
import { Icon } from './icons.tsx';
import { Text } from './text.tsx';

/** Finds pages, names and ids; `/` and Ctrl-K open it. */
export function Search() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  const [names, setNames] = useState<Names>(nothing);
  // Enter during a lookup opens its result when it arrives.
  const [opensResult, setOpensResult] = useState(false);
  const open = (): void => {
    setWords('');
    setAt(0);
    setOpensResult(false);
    dialog.current?.showModal();
    void readNames().then(setNames);
  };
  useKey(() => {
    if (dialog.current?.open !== true) open();
  });
  const lookup = useIdLookup(words);
  const named = findEntries(words, { pages: nouns, ...names });
  const entries = lookup.found === undefined ? named : [lookup.found, ...named];
  const choose = (entry: Entry | undefined): void => {
    if (entry === undefined) return;
    dialog.current?.close();
    navigate(entry.href);
  };
  useEffect(() => {
    if (opensResult && dialog.current?.open === true) choose(lookup.found);
  }, [opensResult, lookup.found]);
  const press = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      setAt((at + step + entries.length) % Math.max(1, entries.length));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      setOpensResult(entries.length === 0);
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
            setOpensResult(false);
          }}
          onKeyDown={press}
        />
        <Found entries={entries} at={at} point={setAt} choose={choose} />
        <p class="soft pad" role="status" hidden={entries.length > 0}>
          <Text value={entries.length > 0 ? '' : describeLookup(lookup)} />
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

function describeLookup({ isAsking, why }: IdLookup): string {
  return isAsking ? 'Searching for this id…' : (why ?? 'No results.');
}

/** Looks up the typed id. Results of earlier input are ignored. */
function useIdLookup(words: string): IdLookup {
  const [{ of, lookup }, setSought] = useState({ of: '', lookup: noLookup });
  useEffect(() => findById(words, (found) => setSought({ of: words, lookup: found })), [words]);
  return of === words ? lookup : noLookup;
}

interface FoundProps {
  readonly entries: readonly Entry[];
  readonly at: number;
  readonly point: (at: number) => void;
  readonly choose: (entry: Entry) => void;
}

function Found({ entries, at, point, choose }: FoundProps) {
  return (
    <ul id="found" role="listbox" aria-label="Results">
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
