import { useEffect, useState } from 'preact/hooks';
import { plain, pieces, shortId } from '../text/visible.ts';
import { absolute, relative } from '../text/time.ts';

const SHOWN_CHARS = 20_000;

interface TextProps {
  readonly value: string;
  /** Keeps line ends and tabs. */
  readonly lines?: boolean;
}

/** Untrusted text: it can't change the writing direction around it, and invisible characters are shown. */
export function Text({ value, lines = false }: TextProps) {
  return (
    <bdi>
      {pieces(value, { lines }).map(({ text, isMark }) =>
        isMark ? (
          <span class="mark" title={`an invisible character: ${text}`}>
            {text}
          </span>
        ) : (
          text
        ),
      )}
    </bdi>
  );
}

/** Text in which `backquotes` mark code. */
export function Marked({ value }: { readonly value: string }) {
  return (
    <>
      {value.split('`').map((text, at, all) => {
        if (text === '') return null;
        // A backquote without its partner is only a character.
        if (at % 2 === 0) return <Text value={text} />;
        if (at === all.length - 1) return <Text value={`\`${text}`} />;
        return (
          <code>
            <Text value={text} />
          </code>
        );
      })}
    </>
  );
}

/** Text that may be missing or empty; both look different from any text. */
export function Maybe({ value }: { readonly value: string | null | undefined }) {
  if (value === null || value === undefined) return <span class="none">–</span>;
  return value === '' ? <span class="none">(empty)</span> : <Text value={value} />;
}

/** Text on one line, cut off, and complete in its tooltip. */
export function Line({ value }: { readonly value: string | null | undefined }) {
  if (value === null || value === undefined || value === '') return <Maybe value={value} />;
  return (
    <span class="line" title={plain(value.slice(0, 2000))}>
      <Text value={value.slice(0, 400)} />
    </span>
  );
}

/** Preformatted text; the rest of a long one is shown on request. */
export function Printed({ value, label }: { readonly value: string; readonly label: string }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? value : value.slice(0, SHOWN_CHARS);
  return (
    <>
      <pre class="printed" tabIndex={0} aria-label={label}>
        <Text value={shown} lines />
      </pre>
      {shown.length < value.length && (
        <button type="button" class="quiet" onClick={() => setWhole(true)}>
          Show all {value.length.toLocaleString('en')} characters
        </button>
      )}
    </>
  );
}

const TICK_MS = 1000;

/** Relative time, with the exact time in its tooltip. */
export function Time({
  at,
  none = '–',
}: {
  readonly at: string | null | undefined;
  readonly none?: string;
}) {
  const now = useNow(at !== null && at !== undefined);
  if (at === null || at === undefined) return <span class="none">{none}</span>;
  const ms = Date.parse(at);
  if (Number.isNaN(ms)) return <Text value={at} />;
  return (
    <time dateTime={at} title={absolute(at)}>
      {relative(ms, now)}
    </time>
  );
}

const tickers = new Set<() => void>();
let ticking: number | undefined;

/** Returns the current time, from one timer for the whole page. */
function useNow(isNeeded: boolean): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!isNeeded) return undefined;
    const tick = (): void => setNow(Date.now());
    tickers.add(tick);
    ticking ??= window.setInterval(() => {
      if (!document.hidden) for (const each of tickers) each();
    }, TICK_MS);
    return () => {
      tickers.delete(tick);
      if (tickers.size > 0) return;
      clearInterval(ticking);
      ticking = undefined;
    };
  }, [isNeeded]);
  return now;
}

export function Id({
  id,
  href,
}: {
  readonly id: string | null | undefined;
  readonly href?: string;
}) {
  if (id === null || id === undefined) return <span class="none">–</span>;
  const text = <Text value={shortId(id)} />;
  if (href === undefined) {
    return (
      <code class="id" title={plain(id)}>
        {text}
      </code>
    );
  }
  return (
    <a class="id" href={href} title={plain(id)}>
      {text}
    </a>
  );
}
