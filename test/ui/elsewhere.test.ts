/** The dashboard of a server elsewhere, without https: browsers keep some of what they offer from such pages. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ELSEWHERE } from '../support/browser.ts';
import { openDashboard, runJob, type Dashboard } from '../support/dashboard.ts';

let place: Dashboard;

beforeAll(async () => {
  place = await openDashboard({ host: ELSEWHERE });
});

afterAll(() => place.close());

test('changes are made', () =>
  place.withTab(async ({ page, open }) => {
    await open('/ui/schedules/echo/often');
    expect(await page.evaluate('isSecureContext')).toBe(false);
    await page.getByRole('button', { name: 'Pause' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('button', { name: 'Resume' }).waitFor();
  }));

test('values are copied, including a secret from its dialog', async () => {
  const job = await runJob(place, 'echo/poll', { word: 'quince' });
  await place.post('/webhooks', { id: 'deploys', title: 'Deploys', plugin: 'echo' });
  await place.withTab(async ({ page, open }) => {
    await open(`/ui/jobs/${job}`);
    await page.getByRole('button', { name: 'Copy the payload' }).click();
    await page.getByRole('button', { name: 'Copy the payload' }).getByText('Copied').waitFor();
    expect(await pasted()).toContain('   "word": "quince"');
    await open('/ui/webhooks/deploys');
    await page.getByRole('button', { name: 'Rotate the secret' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Rotate the secret' }).click();
    const secret = await dialog.locator('dd code').first().textContent();
    await dialog.getByRole('button', { name: 'Copy' }).first().click();
    await dialog.getByText('Copied').waitFor();
    await dialog.getByRole('button', { name: 'I have it' }).click();
    expect(await pasted()).toBe(secret);

    async function pasted(): Promise<string> {
      await page.keyboard.press('Control+k');
      await page.keyboard.press('Control+v');
      const value = await page.locator('input:focus').inputValue();
      await page.keyboard.press('Escape');
      return value;
    }
  });
});
