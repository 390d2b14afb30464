/** A real browser for the tests of the dashboard. */
import { existsSync } from 'node:fs';
import axe from 'axe-core';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';

const programs = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** Name of this machine that a browser doesn't treat as loopback. */
export const ELSEWHERE = 'ductile.test';

// Flags that prevent requests to the internet.
const launchFlags = [
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
  return await chromium.launch({ executablePath, args: launchFlags });
}

export interface Tab {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Errors of the page, including blocked scripts. */
  readonly complaints: string[];
  /** Opens a page of the dashboard and waits until it is loaded. */
  readonly open: (path: string) => Promise<void>;
  /** Opens another page like a link, without reloading the dashboard. */
  readonly turn: (path: string) => Promise<void>;
  /** Returns the violations of accessibility rules on the current page. */
  readonly audit: (auditOptions?: Audit) => Promise<string[]>;
  readonly close: () => Promise<void>;
}

/** Rules to check (default: all). */
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

/** Warning about every page without https, which is ignored. */
const ONLY_HTTPS = 'The Cross-Origin-Opener-Policy header has been ignored';
const HEIGHT = 900;
/** Shorter than a test's timeout, so that the error names the awaited element. */
const TIMEOUT_MS = 60_000;
/** Selector of a completely loaded page. */
const LOADED = 'main:not(:has(.loading)):has(h1, .problem)';

/** Returns a script that opens a path and waits for two frames. */
function navigateScript(path: string): string {
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
  page.setDefaultTimeout(TIMEOUT_MS);
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
      await page.locator(LOADED).waitFor();
    },
    async turn(path) {
      await page.evaluate(navigateScript(path));
      await page.locator(LOADED).waitFor();
    },
    async audit(auditOptions = {}) {
      // The browser runs this script, so the page's own policy doesn't apply.
      if (await page.evaluate("typeof axe === 'undefined'")) await page.evaluate(axe.source);
      const { violations } = await page.evaluate<AxeResults>(
        `axe.run(${JSON.stringify({ resultTypes: ['violations'], ...auditOptions })})`,
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
