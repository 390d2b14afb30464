/** The dashboard in a real browser: signing in, looking and acting. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OWNER } from '../support/api-server.ts';
import {
  openDashboard,
  openIncident,
  runJob,
  startWaitingRun,
  type Dashboard,
} from '../support/dashboard.ts';

let place: Dashboard;
let failed: string;
let run: string;
let incident: string;
let directive: string;

beforeAll(async () => {
  place = await openDashboard();
  const { post } = place;
  [failed, run] = await Promise.all([
    runJob(place, 'broken/poll', {}),
    startWaitingRun(place, 'it'),
  ]);
  await post('/webhooks', {
    id: 'deploys',
    title: 'Deployments',
    plugin: 'echo',
    command: 'handle',
  });
  await post('/webhooks/deploys/test', {});
  await post('/tenants', { slug: 'acme', title: 'Acme' });
  await post('/signals', {
    type: 'order.paid',
    source: 'shop',
    subject: 'order/42',
    data: { n: 1 },
  });
  directive = await askAsAdmin('plugin.disable', { plugin: 'teller' });
  incident = await openIncident(place, 'breaker_open');
});

afterAll(() => place.close());

/** Requests a change that another user has to approve. */
async function askAsAdmin(type: string, params: object): Promise<string> {
  const { token } = await place.post('/tokens', { name: 'ann', role: 'admin' });
  const body = JSON.stringify({ type, params });
  const response = await place.api.ask('/directives', { token: String(token), body });
  expect(response.body['awaiting_approval']).toBe(true);
  return String(response.body['directive_id']);
}

describe('signing in', () => {
  test('takes a token that the server knows, and keeps it in the tab alone', async () => {
    await place.withTab(
      async ({ page, audit, complaints }) => {
        await page.goto('/ui/jobs');
        await page.getByLabel('Token').fill('wrong-token-0123456789');
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.getByText('Invalid token.').waitFor();
        expect(await audit()).toEqual([]);
        await page.getByLabel('Token').fill(OWNER);
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.getByRole('heading', { name: 'Jobs' }).waitFor();
        expect(page.url()).toMatch(/\/ui\/jobs$/);
        expect(await page.evaluate('localStorage.length + document.cookie.length')).toBe(0);
        await page.getByRole('button', { name: 'Sign out' }).click();
        await page.getByLabel('Token').waitFor();
        expect(await page.evaluate('sessionStorage.length')).toBe(0);
        // The browser itself reports every response that is not a success.
        expect(complaints.splice(0)).toEqual([expect.stringContaining('401')]);
      },
      { token: undefined },
    );
  });

  test('is required again when the token has expired', async () => {
    const { token, token_id: id } = await place.post('/tokens', { name: 'brief', role: 'owner' });
    await place.withTab(
      async ({ page, open, complaints }) => {
        await open('/ui/jobs');
        await place.post(`/tokens/${String(id)}/revoke`);
        await page.goto('/ui/runs');
        await page.getByText('Your token has expired or was revoked.').waitFor();
        complaints.splice(0);
      },
      { token: String(token) },
    );
  });
});

/** The parts that another color or width can change; the rest is the same. */
const aboutLooks = [
  'color-contrast',
  'link-in-text-block',
  'scrollable-region-focusable',
  'target-size',
];

const pages = (): string[] => [
  '/ui',
  '/ui/doctor',
  '/ui/jobs',
  `/ui/jobs/${failed}`,
  '/ui/runs',
  `/ui/runs/${run}`,
  '/ui/incidents?status=all',
  `/ui/incidents/${incident}`,
  '/ui/signals',
  '/ui/schedules',
  '/ui/schedules/echo/often',
  '/ui/webhooks',
  '/ui/webhooks/deploys',
  '/ui/plugins',
  '/ui/plugins/echo',
  '/ui/packages',
  '/ui/packages/greeter',
  '/ui/directives',
  `/ui/directives/${directive}`,
  '/ui/tenants',
  '/ui/tenants/acme',
];

describe('every page', () => {
  // Measuring contrast takes long, and these pages have every colour that there is.
  const colourful = new Set(['/ui', '/ui/doctor', '/ui/schedules', '/ui/packages/greeter']);
  const isColourful = (path: string): boolean =>
    colourful.has(path) || [failed, run, directive].some((id) => path.endsWith(id));
  const colourless = { rules: { 'color-contrast': { enabled: false } } };

  test.each([
    { scheme: 'light' as const, width: 1280 },
    { scheme: 'dark' as const, width: 380 },
  ])('is accessible: $scheme, $width pixels wide', (how) =>
    place.withTab(async ({ page, open, turn, audit, complaints }) => {
      await open('/ui');
      for (const path of pages()) {
        await turn(path);
        const isWide = how.scheme === 'light';
        const auditOptions = isColourful(path)
          ? isWide
            ? {}
            : { runOnly: aboutLooks }
          : colourless;
        if (isWide || isColourful(path)) expect(await audit(auditOptions), path).toEqual([]);
        const over = 'document.documentElement.scrollWidth - innerWidth';
        expect(await page.evaluate(over), `${path} is too wide`).toBeLessThanOrEqual(0);
        expect(complaints, path).toEqual([]);
      }
    }, how),
  );

  test('says what is not there', () =>
    place.withTab(async ({ page, open, complaints }) => {
      await open('/ui/nowhere');
      await page.getByText('There is no such page.').waitFor();
      await page.goto('/ui/jobs/0199a1b2-0000-7000-8000-000000000000');
      await page.getByText('there is no job').waitFor();
      for (const complaint of complaints.splice(0)) expect(complaint).toContain('404');
    }));
});

describe('looking', () => {
  test('jobs appear as they happen, without a reload', () =>
    place.withTab(async ({ page, open }) => {
      await open('/ui/jobs?plugin=echo');
      await page.getByText('Live', { exact: true }).waitFor();
      const id = await runJob(place, 'echo/handle', { message: 'hello' });
      await page.locator(`a[href="/ui/jobs/${id}"]`).waitFor();
    }));

  test('choices are in the address, and the address is enough', () =>
    place.withTab(async ({ page, open }) => {
      await open('/ui/jobs');
      await page.getByRole('button', { name: 'Failed' }).click();
      await page.getByLabel('Plugin', { exact: true }).selectOption('broken');
      await page.getByLabel('Error contains…').fill('no such');
      await page.waitForURL(/query=no\+such/);
      expect(new URL(page.url()).search).toBe(
        '?status=failed%2Cdead%2Ctimed_out&plugin=broken&query=no+such',
      );
      await page.reload();
      await page.locator(`a[href="/ui/jobs/${failed}"]`).waitFor();
      expect(await page.getByRole('button', { name: 'Failed' }).getAttribute('aria-pressed')).toBe(
        'true',
      );
    }));

  test('older jobs are on the next page, by a cursor', async () => {
    const ask = Array.from({ length: 51 }, () => place.post('/plugin/echo/poll', {}));
    await Promise.all(ask);
    await place.withTab(async ({ page, open }) => {
      await open('/ui/jobs');
      await page.getByRole('button', { name: 'Older →' }).click();
      await page.waitForURL(/cursor=/);
      await page.locator(`a[href="/ui/jobs/${failed}"]`).waitFor();
      await page.getByRole('button', { name: '← Newest' }).click();
      await page.waitForURL((url) => !url.search.includes('cursor'));
    });
  });

  test('a key opens the search, which finds pages, plugins and ids', () =>
    place.withTab(async ({ page, open, audit }) => {
      await open('/ui');
      await page.keyboard.press('/');
      const field = page.getByRole('combobox');
      await field.fill('echo');
      await page.getByRole('option', { name: 'echo plugin' }).waitFor();
      expect(await audit()).toEqual([]);
      await field.fill(failed);
      await page.keyboard.press('Enter');
      await page.waitForURL(`**/ui/jobs/${failed}`);
      await page.keyboard.press('Control+k');
      await field.fill('sched');
      await page.keyboard.press('Enter');
      await page.waitForURL('**/ui/schedules');
    }));

  test('a failed job shows what happened', () =>
    place.withTab(async ({ page, open }) => {
      await open(`/ui/jobs/${failed}`);
      for (const text of ['it went wrong', / CPU .* memory /]) await page.getByText(text).waitFor();
      await page.getByText('no such thing', { exact: true }).waitFor();
      await page.getByRole('img', { name: /queue .* spawn .* run .* settle/ }).waitFor();
    }));

  test('the colours can be chosen, and stay chosen', () =>
    place.withTab(async ({ page, open }) => {
      await open('/ui');
      await page.getByRole('button', { name: /Colors/ }).click();
      await page.getByRole('button', { name: 'Colors: light' }).click();
      expect(await page.locator('html').getAttribute('data-theme')).toBe('dark');
      await page.reload();
      expect(await page.locator('html').getAttribute('data-theme')).toBe('dark');
    }));
});

describe('acting shows the plan first', () => {
  test('a command is run by a form made of its schema', () =>
    place.withTab(async ({ page, open, audit }) => {
      await open('/ui/plugins/echo');
      await page.getByLabel('message').fill('from the form');
      await page.getByRole('button', { name: 'Run handle' }).click();
      await page.getByText('A job of echo handle').waitFor();
      expect(await audit()).toEqual([]);
      await page.getByRole('dialog').getByRole('button', { name: 'Run' }).click();
      await page.waitForURL(/\/ui\/jobs\/[0-9a-f-]{36}$/);
      await page.getByText('"from the form"').waitFor();
    }));

  test('closing the dialog changes nothing', () =>
    place.withTab(async ({ page, open }) => {
      const before = await place.api.ask('/directives');
      await open('/ui/schedules');
      await page.getByRole('button', { name: 'Pause' }).first().click();
      await page.getByRole('button', { name: 'Close' }).click();
      expect((await place.api.ask('/directives')).text).toBe(before.text);
    }));

  test('a job is cancelled, and a failed one tried again', () =>
    place.withTab(async ({ page, open }) => {
      const { job_id: id } = await place.post('/plugin/sleeper/poll', {});
      await open(`/ui/jobs/${String(id)}`);
      await page.getByRole('button', { name: 'Cancel', exact: true }).click();
      await page.getByRole('button', { name: 'Cancel the job' }).click();
      await page.locator('.about').getByText('cancelled').waitFor();
      await open(`/ui/jobs/${failed}`);
      await page.getByRole('button', { name: 'Retry' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Retry' }).click();
      await page.getByText('Job retried').waitFor();
      await page.locator(`dd a[href="/ui/jobs/${failed}"]`).waitFor();
    }));

  test('a step is approved, and the picture of the run moves on', () =>
    place.withTab(async ({ page, open }) => {
      await open('/ui/runs?status=awaiting');
      await page.getByRole('row', { name: 'Waits for approval' }).getByRole('link').first().click();
      await page.getByRole('button', { name: 'Approve' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
      await page.locator('.about').getByText('succeeded').waitFor();
      await page.locator('.knot.good', { hasText: 'finish' }).waitFor();
    }));

  test('a schedule is paused, and says why it does not fire', () =>
    place.withTab(async ({ page, open }) => {
      await open('/ui/schedules');
      await page.getByRole('link', { name: 'echo often' }).click();
      await page.getByRole('button', { name: 'Pause' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
      await page.getByRole('button', { name: 'Resume' }).waitFor();
      await page.getByRole('region', { name: 'Why' }).getByText('paused').first().waitFor();
    }));

  test('a breaker is reset where its incident is shown, and that closes by itself', () =>
    place.withTab(async ({ page, open }) => {
      await open('/ui');
      const alarm = page.locator('.findings > li', { hasText: 'broken poll' });
      await alarm.getByRole('link', { name: 'Open incident' }).click();
      await page.waitForURL(`**/ui/incidents/${incident}`);
      await page.getByRole('button', { name: 'Reset breaker' }).click();
      await page.locator('dialog .plan').getByText('broken').first().waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Reset breaker' }).click();
      await page.getByText('Breaker reset', { exact: true }).waitFor();
      const { body } = await place.api.ask('/system/breaker');
      expect(JSON.stringify(body['breakers'])).not.toContain('"state":"open"');
    }));

  test('a directive shows its actor and why it waits, and is done when it is approved', () =>
    place.withTab(async ({ page, open, turn }) => {
      await open('/ui/directives?status=awaiting');
      await page.getByRole('link', { name: 'plugin.disable plugin:teller' }).click();
      await page.getByRole('region', { name: 'Why' }).getByText('token:ann').first().waitFor();
      await page.getByRole('button', { name: 'Approve' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
      await page.locator('.about').getByText('completed').waitFor();
      await page
        .locator('.facts div', { hasText: 'Approved by' })
        .getByText('token:owner')
        .waitFor();
      await turn('/ui/directives?status=awaiting');
      await page.getByText('Nothing waits for approval.').waitFor();
    }));

  test('the limits of a tenant are changed, and the change is recorded with its actor', () =>
    place.withTab(async ({ page, open }) => {
      await open('/ui/tenants');
      await page.getByRole('link', { name: 'Acme acme' }).click();
      await page.getByLabel('workers').fill('3');
      await page.getByRole('button', { name: 'Set limits' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Set limits' }).click();
      await page.getByText('Limits set').waitFor();
      await page.getByRole('link', { name: 'tenant.limit tenant:acme' }).waitFor();
      expect((await place.api.ask('/tenants/acme')).body['limits']).toMatchObject({ workers: 3 });
    }));

  test('a package is installed, and a signal replayed', () =>
    place.withTab(async ({ page, open }) => {
      await open('/ui/packages/greeter');
      await page.getByRole('button', { name: 'Install' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Install' }).click();
      await page.getByText('Package installed').waitFor();
      await open('/ui/signals?type=order.paid');
      await page.getByRole('link', { name: 'order.paid' }).click();
      await page.getByRole('button', { name: 'Replay' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click();
      await page.getByText(/Replayed/).waitFor();
    }));
});

test('a page of what is not there says so, and what it is a page of', () =>
  place.withTab(async ({ page, open, turn, complaints }) => {
    const byId = ['directives', 'incidents', 'jobs', 'runs', 'signals'].map(
      (noun) => `${noun}/ffff`,
    );
    const byName = ['packages', 'plugins', 'tenants', 'webhooks'].map((noun) => `${noun}/nowhere`);
    await open('/ui');
    for (const path of [...byId, ...byName, 'schedules/echo/nowhere']) {
      await turn(`/ui/${path}`);
      await page.locator('main .problem[role=alert]').waitFor();
      const title = (await page.locator('main h1').textContent()) ?? '';
      expect(`${title.toLowerCase()}s`).toBe(path.split('/')[0]);
      for (const complaint of complaints.splice(0)) expect(complaint).toContain('404');
    }
  }));

describe('a token that may only read', () => {
  test('sees everything, and learns its missing scope when it wants a change', async () => {
    const { token } = await place.post('/tokens', { name: 'viewer', scopes: ['read:*'] });
    await place.withTab(
      async ({ page, open, turn, complaints }) => {
        await open('/ui');
        for (const path of pages()) {
          await turn(path);
          expect(complaints, path).toEqual([]);
          expect(await page.locator('main .problem[role=alert]').count(), path).toBe(0);
        }
        await turn('/ui/schedules/echo/often');
        await page.getByRole('button', { name: /Pause|Resume/ }).click();
        await page.locator('dialog .problem').getByText('schedules:rw').waitFor();
        expect(complaints.splice(0)).toEqual([expect.stringContaining('403')]);
      },
      { token: String(token) },
    );
  });

  test('a token that may see jobs alone is reported on the other pages', async () => {
    const { token } = await place.post('/tokens', { name: 'narrow', scopes: ['jobs:ro'] });
    await place.withTab(
      async ({ page, open, turn, complaints }) => {
        await open('/ui/jobs');
        await page.locator(`a[href^="/ui/jobs/"]`).first().waitFor();
        await turn('/ui/webhooks');
        await page.locator('main .problem').getByText('webhooks:ro').waitFor();
        for (const complaint of complaints.splice(0)) expect(complaint).toContain('403');
      },
      { token: String(token) },
    );
  });
});
