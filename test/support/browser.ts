/** A real browser for the tests of the dashboard. */
import { existsSync } from 'node:fs';
import axe from 'axe-core';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';

const programs = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** A name of this machine that is none of loopback to a browser. */
export const ELSEWHERE = 'ductile.test';

// It asks nobody on the network for anything.
const quiet = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // A remote host without https: browsers trust such a name less than loopback.
  `--host-resolver-rules=MAP ${ELSEWHERE} 127.0.0.1`,
];

export async function startBrowser(): Promise<Browser> {
  const executablePath = programs.find((path) => existsSync(path));
  if (executablePath === undefined) {
    throw new Error(
      'these tests need Chromium: apt-get install -y --no-install-recommends chromium',
    );
  }
  return await chromium.launch({ executablePath, args: quiet });
}

export interface Tab {
  readonly page: Page;
  readonly context: BrowserContext;
  /** The errors of the page, including blocked scripts. */
  readonly complaints: string[];
  /** Opens a page of the dashboard and waits until it has something to show. */
  readonly open: (path: string) => Promise<void>;
  /** Turns to another page as a link does, without loading the dashboard anew. */
  readonly turn: (path: string) => Promise<void>;
  /** Returns the violations of accessibility rules on the current page. */
  readonly audit: (wish?: Audit) => Promise<string[]>;
  readonly close: () => Promise<void>;
}

/** Rules to follow alone, or not to follow; all unless told. */
interface Audit {
  readonly runOnly?: readonly string[];
  readonly rules?: Readonly<Record<string, { readonly enabled: boolean }>>;
}

export interface TabOptions {
  readonly origin: string;
  readonly token?: string | undefined;
  readonly scheme?: 'dark' | 'light';
  readonly width?: number;
}

/** A message about every page without https; nothing of the page depends on it. */
const ONLY_HTTPS = 'The Cross-Origin-Opener-Policy header has been ignored';
const HEIGHT = 900;
/** Shorter than that of a test, so that what was waited for is told. */
const PATIENCE_MS = 60_000;
/** A page with nothing left to come. */
const SHOWN = 'main:not(:has(.loading)):has(h1, .problem)';

/** Two frames later the page is drawn that the address names. */
function turnTo(path: string): string {
  return `new Promise((drawn) => {
    history.pushState(null, '', ${JSON.stringify(path)});
    dispatchEvent(new Event('popstate'));
    requestAnimationFrame(() => requestAnimationFrame(drawn));
  })`;
}

export async function openTab(browser: Browser, options: TabOptions): Promise<Tab> {
  const { origin, token, scheme = 'light', width = 1280 } = options;
  const context = await browser.newContext({
    viewport: { width, height: HEIGHT },
    colorScheme: scheme,
    reducedMotion: 'reduce',
    baseURL: origin,
  });
  if (token !== undefined) {
    const text = `sessionStorage.setItem('ductile.token', ${JSON.stringify(token)})`;
    await context.addInitScript({ content: text });
  }
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const complaints: string[] = [];
  page.on('console', (message) => {
    const isComplaint = ['error', 'warning'].includes(message.type());
    if (isComplaint && !message.text().startsWith(ONLY_HTTPS)) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('dialog', (dialog) => {
    complaints.push(`a dialog opened: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return {
    page,
    context,
    complaints,
    async open(path) {
      await page.goto(path);
      await page.locator(SHOWN).waitFor();
    },
    async turn(path) {
      await page.evaluate(turnTo(path));
      await page.locator(SHOWN).waitFor();
    },
    async audit(wish = {}) {
      // Run in the page, past its own rules for scripts: it is the browser that runs it, not the page.
      if (await page.evaluate("typeof axe === 'undefined'")) await page.evaluate(axe.source);
      const { violations } = await page.evaluate<AxeResults>(
        `axe.run(${JSON.stringify({ resultTypes: ['violations'], ...wish })})`,
      );
      return violations.map(
        ({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`,
      );
    },
    close: () => context.close(),
  };
}

interface AxeResults {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string }[];
  }[];
}
