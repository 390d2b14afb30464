/** The content of the dashboard, and its layout. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  openDashboard,
  openIncident,
  startWaitingRun,
  type Dashboard,
} from '../support/dashboard.ts';

let place: Dashboard;
let run: string;
let incident: string;

beforeAll(async () => {
  place = await openDashboard();
  await place.post('/webhooks', { id: 'deploys', title: 'Deployments', plugin: 'echo' });
  run = await startWaitingRun(place, 'it');
  incident = await openIncident(place, 'breaker_open');
});

afterAll(() => place.close());

test('the search offers of ids what is there alone', () =>
  place.withTab(async ({ page, open, complaints }) => {
    await open('/ui');
    await page.keyboard.press('/');
    const field = page.getByRole('combobox');
    await field.fill(incident);
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/ui/incidents/${incident}`);
    await page.keyboard.press('Control+k');
    await field.fill('ffffffff');
    await page.keyboard.press('Enter');
    await page.getByText('Nothing has this id.').waitFor();
    expect(await page.getByRole('option').count()).toBe(0);
    expect(new URL(page.url()).pathname).toBe(`/ui/incidents/${incident}`);
    for (const complaint of complaints.splice(0)) expect(complaint).toContain('404');
  }));

test('the name of a block and what it came to are not drawn over each other', () =>
  place.withTab(async ({ page, open }) => {
    await open(`/ui/runs/${run}`);
    const block = page.locator('.knot.block', { hasText: 'both_at_once' });
    const box = await block.locator('rect').first().boundingBox();
    const name = await block.locator('.knot-name').boundingBox();
    const does = await block.locator('.knot-does').boundingBox();
    const right = (of: typeof name): number => (of?.x ?? NaN) + (of?.width ?? NaN);
    expect(does?.x).toBeGreaterThan(right(name));
    expect(right(does)).toBeLessThan(right(box));
  }));

test("a token that may not see findings doesn't read that there are none", async () => {
  const { token } = await place.post('/tokens', { name: 'narrow', scopes: ['jobs:ro'] });
  await place.withTab(
    async ({ page, open, complaints }) => {
      await open('/ui');
      await page.getByText('Not everything that may need attention').waitFor();
      await page.getByText('Use a token with the scope incidents:ro.').waitFor();
      for (const complaint of complaints.splice(0)) expect(complaint).toContain('403');
    },
    { token: String(token) },
  );
  await place.withTab(async ({ page, open }) => {
    await open('/ui');
    await page.getByText('Needs attention').waitFor();
    expect(await page.getByText('Not everything').count()).toBe(0);
  });
});

test('a run that is too large to be shown says so where it is counted', () =>
  place.withTab(async ({ page, open }) => {
    const note = page.getByText(/only the first \d+ steps/);
    await open(`/ui/runs/${run}`);
    expect(await note.count()).toBe(0);
    await page.route(`**/runs/${run}`, async (route) => {
      const response = await route.fetch();
      const story = (await response.json()) as object;
      await route.fulfill({ response, json: { ...story, complete: false } });
    });
    await open(`/ui/runs/${run}?`);
    await note.waitFor();
    // The page may still fetch; its response must not outlive the page.
    await page.unrouteAll({ behavior: 'wait' });
  }));

test('on a phone, fields and the ends of ids are not cut off', () =>
  place.withTab(
    async ({ page, open, turn }) => {
      const hidden = (selector: string): Promise<unknown> =>
        page.evaluate(
          `(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('${selector}'))`,
        );
      await open('/ui/directives');
      expect(await hidden('a.name')).toBe(0);
      await turn('/ui/webhooks/deploys');
      const choice = page.getByRole('group', { name: 'Verdict' });
      await choice.waitFor();
      expect(await hidden('.choice')).toBe(0);
      const { x = NaN, width = NaN } =
        (await choice.getByRole('button', { name: 'Failed' }).boundingBox()) ?? {};
      expect(x + width).toBeLessThanOrEqual(390);
    },
    { width: 390 },
  ));

test('on a phone, the menu shows the entry of the current page', () =>
  place.withTab(async ({ page, open }) => {
    await page.setViewportSize({ width: 380, height: 800 });
    await open('/ui/tenants');
    const { x = -1, width = 0 } = (await page.locator('nav [aria-current]').boundingBox()) ?? {};
    expect([x >= 0, x + width <= 380]).toEqual([true, true]);
  }));
