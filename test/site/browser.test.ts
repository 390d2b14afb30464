/** The documentation in a real browser: reading, following the sidebar, searching. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Browser } from 'playwright-core';
import { startApi, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';
import { openTab, startBrowser, type Tab, type TabOptions } from '../support/browser.ts';

let api: TestApi;
let browser: Browser;

beforeAll(async () => {
  [api, browser] = await Promise.all([startApi(), startBrowser()]);
});

afterAll(async () => {
  await browser.close();
  await api.close();
});

/** Opens a tab and checks that nothing was blocked and that no request left this machine. */
async function withTab(
  use: (tab: Tab) => Promise<void>,
  options: Omit<TabOptions, 'origin'> = {},
): Promise<void> {
  const origin = `http://127.0.0.1:${api.port}`;
  const tab = await openTab(browser, { origin, ...options });
  const foreign: string[] = [];
  tab.page.on('request', (sent) => {
    const url = sent.url();
    if (!url.startsWith(`${origin}/docs`) && !url.startsWith('data:')) foreign.push(url);
  });
  try {
    await use(tab);
    expect(tab.complaints).toEqual([]);
    expect(foreign).toEqual([]);
  } finally {
    await tab.close();
  }
}

/** Waits until Vue runs the page. */
async function openPage({ page }: Tab, path: string): Promise<void> {
  await page.goto(path);
  // Not `waitForFunction`, which evaluates text, and the policy forbids that.
  await eventually('Vue runs the page', async () => {
    const isRunning = await page.evaluate("'__vue_app__' in document.querySelector('#app')");
    return isRunning === true ? true : undefined;
  });
}

/** Amount of red in the color of a diagram's text, from 0 to 255. */
const RED = `(() => {
  const canvas = document.createElement('canvas').getContext('2d');
  canvas.fillStyle = getComputedStyle(document.querySelector('.diagram text')).fill;
  canvas.fillRect(0, 0, 1, 1);
  return canvas.getImageData(0, 0, 1, 1).data[0];
})()`;

test('a reader follows the sidebar from page to page', async () => {
  await withTab(async (tab) => {
    const { page } = tab;
    await openPage(tab, '/docs/');
    await page.locator('.VPSidebar').getByRole('link', { name: 'Concepts', exact: true }).click();
    await page.waitForURL('**/docs/concepts/');
    await page.locator('.VPSidebar').getByRole('link', { name: 'Schedules', exact: true }).click();
    await page.waitForURL('**/docs/concepts/schedules');
    await page.getByRole('heading', { level: 1, name: 'Schedules' }).waitFor();
    await page.goBack();
    await page.waitForURL('**/docs/concepts/');
  });
});

test('a reader searches for a word and opens the result', async () => {
  await withTab(async (tab) => {
    const { page } = tab;
    await openPage(tab, '/docs/');
    await page.getByRole('button', { name: 'Search' }).click();
    await page.locator('#localsearch-input').fill('AGENT_UNAVAILABLE');
    const result = page.locator('.VPLocalSearchBox .result').first();
    await result.waitFor();
    await result.click();
    await page.waitForURL('**/docs/reference/errors#agent_unavailable');
    await page.getByRole('heading', { name: 'AGENT_UNAVAILABLE' }).waitFor();
  });
});

test.each(['light', 'dark'] as const)(
  'a diagram is shown in %s mode, in the colors of the mode',
  async (scheme) => {
    await withTab(
      async (tab) => {
        const { page } = tab;
        await openPage(tab, '/docs/recipes/deploy-on-push');
        const diagram = page.locator('.diagram svg').first();
        const box = await diagram.boundingBox();
        expect(box?.width).toBeGreaterThan(100);
        expect(box?.height).toBeGreaterThan(50);
        const isDark = await page.evaluate("document.documentElement.classList.contains('dark')");
        expect(isDark).toBe(scheme === 'dark');
        const red = await page.evaluate(RED);
        if (scheme === 'dark') expect(red).toBeGreaterThan(128);
        else expect(red).toBeLessThan(128);
      },
      { scheme },
    );
  },
);

test('a reader switches to dark mode, which stays after a reload', async () => {
  await withTab(async (tab) => {
    const { page } = tab;
    await openPage(tab, '/docs/');
    await page.locator('.VPNavBarAppearance button').click();
    await page.locator('html.dark').waitFor({ state: 'attached' });
    await openPage(tab, '/docs/');
    await page.locator('html.dark').waitFor({ state: 'attached' });
  });
});

test('a missing page says so', async () => {
  await withTab(async (tab) => {
    const { page, complaints } = tab;
    await openPage(tab, '/docs/no-such-page');
    await page.getByText('PAGE NOT FOUND').waitFor();
    // The browser itself reports every response that is not a success.
    expect(complaints.splice(0)).toEqual([expect.stringContaining('404')]);
  });
});

test.each([
  ['/docs/', 'light', 1280],
  ['/docs/concepts/', 'dark', 1280],
  ['/docs/reference/errors', 'light', 1280],
  ['/docs/reference/config', 'dark', 390],
  ['/docs/guides/webhooks', 'light', 390],
  ['/docs/get-started/quickstart', 'dark', 1280],
] as const)('%s is accessible in %s mode, %i pixels wide', async (path, scheme, width) => {
  await withTab(
    async (tab) => {
      await openPage(tab, path);
      expect(await tab.audit()).toEqual([]);
    },
    { scheme, width },
  );
});

test('the menu opens on a phone', async () => {
  await withTab(
    async (tab) => {
      const { page } = tab;
      await openPage(tab, '/docs/reference/errors');
      await page.getByRole('button', { name: 'Menu', exact: true }).first().click();
      await page
        .locator('.VPSidebar')
        .getByRole('link', { name: 'Findings', exact: true })
        .waitFor();
      expect(await tab.audit()).toEqual([]);
    },
    { width: 390 },
  );
});
