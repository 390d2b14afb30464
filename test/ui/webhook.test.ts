/** Webhooks in the dashboard: their secrets, and what became of what was delivered. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ENDPOINT, ENDPOINT_KEY, openDashboard, type Dashboard } from '../support/dashboard.ts';
import { mac } from '../support/webhook-attacks.ts';

let place: Dashboard;

beforeAll(async () => {
  place = await openDashboard({
    parcel: {
      title: 'Takes parcels',
      config_schema: {
        type: 'object',
        properties: { streets: { type: 'array' }, prompt: { type: 'string' } },
      },
      webhooks: [{ id: 'parcels', title: 'Parcels', signal: 'parcel.came' }],
    },
  });
});

afterAll(() => place.close());

/** The response to a sender with this secret. */
async function deliver(path: string, secret: string): Promise<number> {
  return (await place.api.ask(path, { token: secret, body: '{"n":1}' })).status;
}

test('a package is requested by a form, and shows the address and secret of its webhook', () =>
  place.withTab(async ({ page, open, audit }) => {
    await open('/ui/packages/parcel');
    const streets = page.getByLabel('streets a JSON array');
    await streets.fill('Main');
    await page.getByRole('button', { name: 'Install' }).click();
    const fault = await page
      .locator('p.wrong', { hasText: 'streets must be JSON' })
      .getAttribute('id');
    expect(await streets.getAttribute('aria-describedby')).toBe(fault);
    expect(await audit()).toEqual([]);
    await streets.fill('["Main"]');
    await page.locator('textarea[id$=prompt]').waitFor();
    await page.getByRole('button', { name: 'Install' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Install' }).click();
    await dialog.getByRole('heading', { name: 'Package installed' }).waitFor();
    await dialog.getByText(/^\/hooks\//).waitFor();
    await page.keyboard.press('Escape');
    expect(await audit()).toEqual([]);
    const [path = '', secret = ''] = await dialog.locator('dd code').allTextContents();
    expect(await deliver(path, secret)).toBe(202);
    // Read before the dialog's close event, which comes later.
    const left = await dialog
      .getByRole('button', { name: 'I have it' })
      .evaluate(async (button: HTMLElement) => {
        button.click();
        await Promise.resolve();
        return button.ownerDocument.documentElement.outerHTML;
      });
    expect(left).not.toContain(secret);
    await dialog.waitFor({ state: 'hidden' });
  }));

test('a new secret is created and shown once, and the old one is valid for as long as chosen', async () => {
  await place.post('/webhooks', { id: 'turning', title: 'Turning', signal: 'it.turned' });
  await place.withTab(async ({ page, open }) => {
    await open('/ui/webhooks/turning');
    const dialog = page.getByRole('dialog');
    const rotate = async (old: string, plan: string): Promise<string> => {
      await page.getByRole('button', { name: 'Rotate the secret' }).click();
      await page.getByLabel('Current secret').selectOption(old);
      await dialog.getByText(plan).waitFor();
      await dialog.getByRole('button', { name: 'Rotate the secret' }).click();
      const shown = await dialog.locator('dd code').nth(1).textContent();
      await dialog.getByRole('button', { name: 'I have it' }).click();
      return shown ?? '';
    };
    const revoked = 'The current one stops working immediately.';
    const first = await rotate('revoke now', revoked);
    const second = await rotate('keep valid for 1 day', 'The current one stays valid for 1d.');
    expect(
      await Promise.all([deliver('/hooks/turning', first), deliver('/hooks/turning', second)]),
    ).toEqual([202, 202]);
    const third = await rotate('revoke now', revoked);
    expect(
      await Promise.all([deliver('/hooks/turning', second), deliver('/hooks/turning', third)]),
    ).toEqual([401, 202]);
  });
});

test('changes of a webhook are described in plain words', async () => {
  await place.post('/webhooks', { id: 'deploys', title: 'Deploys', plugin: 'echo' });
  await place.withTab(async ({ page, open }) => {
    await open('/ui/webhooks/deploys');
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Send a test' }).click();
    await dialog.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('Test sent: status 202').waitFor();
    await page.locator('td a[href^="/ui/signals/"]').waitFor();
    await page.getByRole('button', { name: 'Replay' }).click();
    await dialog.getByText('The work that it starts cannot be undone').waitFor();
    await dialog.getByRole('button', { name: 'Replay' }).click();
    await page.getByText('Replayed: 1 job created').waitFor();
    await page.getByRole('button', { name: 'Disable' }).click();
    await dialog.getByText('Webhook deploys will be disabled.').waitFor();
  });
  const changes = { title: 'Ship', description: 'it', command: 'poll', dry_run: true };
  const edit = { method: 'PATCH', body: JSON.stringify(changes) };
  expect((await place.api.ask('/webhooks/deploys', edit)).body['plan']).toEqual([
    'title, description and command of webhook deploys will be changed for later deliveries.',
  ]);
});

test('an endpoint of the configuration is listed with its deliveries and their outcomes', async () => {
  const body = '{"message":"hi"}';
  const headers = { 'x-sig': mac(ENDPOINT_KEY, body, 'hex') };
  expect((await place.api.deliver(ENDPOINT.path, { body, headers })).status).toBe(202);
  await place.withTab(async ({ page, open, audit }) => {
    await open('/ui/webhooks');
    const table = page.getByRole('table', { name: 'Endpoints' });
    await table.getByText('succeeded').waitFor();
    expect(await audit()).toEqual([]);
    await table.getByRole('link', { name: ENDPOINT.path }).click();
    await page.getByText('echo handle').waitFor();
    const came = page.getByRole('table', { name: 'Deliveries' });
    await came.getByText('succeeded').waitFor();
    await came.getByRole('button', { name: 'Replay' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click();
    await page.getByText('Replayed: 1 job created').waitFor();
    expect(await audit()).toEqual([]);
  });
});
