import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { onLink } from './api/live.ts';
import type { Link } from './api/stream.ts';
import { signOut } from './api/token.ts';
import { Attention, useAttention, useAttentionState } from './finding/attention.ts';
import { needsAttention } from './finding/merge.ts';
import { link, type Route } from './route.ts';
import { nouns } from './nouns.ts';
import { count } from './text/time.ts';
import { Icon } from './ui/icons.tsx';
import { Search } from './ui/search.tsx';
import { nextTheme, readTheme, setTheme } from './ui/theme.ts';

/** Frame of every page: the menu and the top bar. */
export function Shell({
  route,
  children,
}: {
  readonly route: Route;
  readonly children: ComponentChildren;
}) {
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a phone the menu is wider than the screen.
    const here = nav.current?.querySelector('[aria-current]');
    here?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [route.page]);
  const attention = useAttentionState();
  return (
    <Attention.Provider value={attention}>
      <div class="shell">
        <a class="skip" href="#page">
          Skip to content
        </a>
        <nav class="nav" aria-label="Pages of the dashboard" ref={nav}>
          <a class="brand" href={link('overview')} aria-label="Ductile, overview">
            <img
              src={document.querySelector('link[rel=icon]')?.getAttribute('href') ?? ''}
              alt=""
            />
            <span>Ductile</span>
          </a>
          {nouns.map(([page, title]) => (
            <a
              class="nav-link"
              href={link(page)}
              {...(route.page === page ? { 'aria-current': 'page' as const } : {})}
            >
              <Icon name={page} />
              <span>{title}</span>
              {page === 'doctor' && <FindingCount />}
            </a>
          ))}
          <a class="nav-link" href="/docs/">
            <Icon name="docs" />
            <span>Documentation</span>
          </a>
        </nav>
        <div class="bar">
          <Search />
          <Live />
          <ThemeSwitch />
          <button
            type="button"
            class="icon-button"
            aria-label="Sign out"
            onClick={() => signOut('asked')}
          >
            <Icon name="leave" />
          </button>
        </div>
        <main id="page" tabIndex={-1}>
          <Lost />
          {children}
        </main>
      </div>
    </Attention.Provider>
  );
}

/** Number of findings that need attention; hidden if there are none. */
function FindingCount() {
  const urgent = useAttention().findings.filter(needsAttention);
  if (urgent.length === 0) return null;
  const [first] = urgent;
  const tone = first?.severity === 'error' ? 'bad' : 'warn';
  return (
    <span class={`nav-count ${tone}`}>
      {count(urgent.length)}
      <span class="unseen"> {urgent.length === 1 ? 'finding' : 'findings'}</span>
    </span>
  );
}

const words: Readonly<Record<Link, readonly [text: string, about: string]>> = {
  live: ['Live', 'Live updates are on'],
  connecting: ['Connecting', 'Connecting to the service'],
  lost: ['Offline', "Can't reach the service; reconnecting"],
  full: [
    'Every 5 s',
    'Live updates are unavailable (missing scope or too many open streams). Refreshing every 5 s.',
  ],
};

function useLink(): Link {
  const [state, setState] = useState<Link>('connecting');
  useEffect(() => onLink(setState), []);
  return state;
}

/** Notice above the page that the shown data may be outdated. */
function Lost() {
  if (useLink() !== 'lost') return null;
  return (
    <p class="problem" role="alert">
      <strong>Can't reach the service.</strong> Showing the last known data. Reconnecting…
    </p>
  );
}

function Live() {
  const state = useLink();
  const [text, about] = words[state];
  return (
    <span class={`live ${state}`} title={about} role="status">
      <i aria-hidden="true" />
      <span>{text}</span>
    </span>
  );
}

function ThemeSwitch() {
  const [theme, setShown] = useState(readTheme);
  const switchTheme = (): void => {
    const next = nextTheme(theme);
    setTheme(next);
    setShown(next);
  };
  const about = `Colors: ${theme === 'auto' ? 'system' : theme}`;
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={`${about}; change`}
      title={about}
      onClick={switchTheme}
    >
      <Icon name={theme} />
    </button>
  );
}
