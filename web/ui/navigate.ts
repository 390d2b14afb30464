import { useEffect, useState } from 'preact/hooks';
import { link, readRoute, type Route, type Target } from '../route.ts';

const MOVED = 'ductile:moved';

export function useRoute(): Route {
  const read = (): Route => readRoute(location.pathname, location.search);
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const move = (): void => setRoute(read());
    addEventListener('popstate', move);
    addEventListener(MOVED, move);
    return () => {
      removeEventListener('popstate', move);
      removeEventListener(MOVED, move);
    };
  }, []);
  return route;
}

export function navigate(href: string): void {
  history.pushState(null, '', href);
  dispatchEvent(new Event(MOVED));
  scrollTo(0, 0);
}

/** Changes the query of the current page, without a new entry in the browser's history. */
export function choose(page: string, target: Target): void {
  history.replaceState(null, '', link(page, target));
  dispatchEvent(new Event(MOVED));
}

/** Handles clicks on links to the dashboard, without loading it again. */
export function followLinks(): void {
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const anchor = event.target instanceof Element ? event.target.closest('a') : null;
    const href = anchor?.getAttribute('href') ?? '';
    if (anchor === null || !/^\/ui(\/|\?|$)/.test(href)) return;
    event.preventDefault();
    navigate(href);
  });
}
