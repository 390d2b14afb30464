/** The forms of the dashboard before it starts something. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDashboard, type Dashboard } from '../support/dashboard.ts';

let place: Dashboard;

beforeAll(async () => {
  place = await openDashboard();
});

afterAll(() => place.close());

test('a run is started with the payload that its pipeline needs', () =>
  place.withTab(async ({ page, open, audit }) => {
    await open('/ui/runs');
    await page.getByLabel('Pipeline').selectOption('decide');
    await page.getByRole('button', { name: 'Start a run' }).click();
    const payload = page.getByLabel('Payload, a JSON object');
    await payload.fill('{"text": "the quince"');
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByText('the payload must be JSON').waitFor();
    expect(await audit()).toEqual([]);
    await payload.fill('{"text": "the quince"}');
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByText('will start with step look').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Start the run' }).click();
    await page.waitForURL(/\/ui\/runs\/[0-9a-f-]{36}$/);
    await page.getByText('Go on with the quince?').first().waitFor();
  }));
