import { useEffect, useRef, useState } from 'preact/hooks';
import type { Route } from '../route.ts';
import { choose } from './navigate.ts';

/** Changes filters in the address, and returns to the first page. */
export function narrow(route: Route, changed: Readonly<Record<string, string | undefined>>): void {
  const { page, id, query } = route;
  choose(page, { id, query: { ...query, cursor: undefined, ...changed } });
}

interface ChoiceProps {
  readonly route: Route;
  readonly name: string;
  readonly label: string;
  readonly options: readonly (readonly [value: string, text: string])[];
}

/** Row of buttons, one of which is selected. */
export function Choice({ route, name, label, options }: ChoiceProps) {
  const chosen = route.query[name] ?? '';
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([value, text]) => (
        <button
          type="button"
          aria-pressed={chosen === value}
          onClick={() => narrow(route, { [name]: value })}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

export function Select({ route, name, label, options }: ChoiceProps) {
  return (
    <div class="field">
      <select
        aria-label={label}
        value={route.query[name] ?? ''}
        onChange={(event) => narrow(route, { [name]: event.currentTarget.value })}
      >
        {options.map(([value, text]) => (
          <option value={value}>{text}</option>
        ))}
      </select>
    </div>
  );
}

const TYPED_MS = 250;

/** Text filter, applied when the user stops typing. */
export function Typed({ route, name, label }: Omit<ChoiceProps, 'options'>) {
  const chosen = route.query[name] ?? '';
  const [text, setText] = useState(chosen);
  const timer = useRef<number>(undefined);
  useEffect(() => setText(chosen), [chosen]);
  const type = (value: string): void => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => narrow(route, { [name]: value.trim() }), TYPED_MS);
  };
  return (
    <div class="field">
      <input
        type="search"
        aria-label={label}
        placeholder={label}
        value={text}
        onInput={(event) => type(event.currentTarget.value)}
      />
    </div>
  );
}

interface PagerProps {
  readonly route: Route;
  readonly next: string | null;
}

/** Buttons for older rows and for the newest ones. */
export function Pager({ route, next }: PagerProps) {
  const { page, id, query } = route;
  if (next === null && query['cursor'] === undefined) return null;
  const open = (cursor: string | undefined): void => {
    choose(page, { id, query: { ...query, cursor } });
    scrollTo(0, 0);
  };
  return (
    <nav class="pager" aria-label="Pages">
      <button
        type="button"
        disabled={query['cursor'] === undefined}
        onClick={() => open(undefined)}
      >
        ← Newest
      </button>
      <button type="button" disabled={next === null} onClick={() => open(next ?? undefined)}>
        Older →
      </button>
    </nav>
  );
}
