/** Attention: the panel of the Overview, the page of `doctor`, and its count in the menu. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Page } from 'playwright-core';
import { openDashboard, startWaitingRun, type Dashboard } from '../support/dashboard.ts';
import { eventually } from '../support/instance.ts';

let place: Dashboard;
let halted: string;

beforeAll(async () => {
  place = await openDashboard({
    pipelines: [{ name: 'fragile', steps: [{ id: 'breaks', uses: 'broken.handle' }] }],
  });
  halted = await haltedRun();
});

afterAll(() => place.close());

async function haltedRun(): Promise<string> {
  const { run_id: id } = await place.post('/pipeline/fragile', { payload: {} });
  await eventually('a halted run', async () => {
    const { body } = await place.api.ask(`/runs/${String(id)}`);
    return body['status'] === 'halted';
  });
  return String(id);
}

/** Responds to an operation in place of the service. */
async function answer(page: Page, path: string, json: object, status = 200): Promise<void> {
  await page.route(
    ({ pathname }) => pathname === path,
    (route) => route.fulfill({ status, json }),
  );
}

const healthy = { valid: true, errors: 0, warnings: 0, findings: [] };

describe('the Overview', () => {
  test('ranks what is wrong, with its evidence, its object and the command that resolves it', () =>
    place.withTab(async ({ page, open, audit }) => {
      await open('/ui');
      const card = page.getByRole('list', { name: 'Needs attention' });
      const finding = card.getByRole('listitem').filter({ hasText: 'pipeline fragile halted' });
      await finding.getByText(`run ${halted} halted at breaks`).waitFor();
      await finding.getByText(`ductile run revive ${halted}`).waitFor();
      await finding.getByRole('button', { name: 'Copy the command' }).click();
      const ranks = await card.locator('.finding-state .status').allTextContents();
      expect(ranks).toEqual(ranks.toSorted());
      expect(await audit()).toEqual([]);
      await finding.getByRole('link', { name: 'Open run' }).click();
      await page.waitForURL(`**/ui/runs/${halted}`);
    }));

  test('says that nothing is wrong only if doctor says so', () =>
    place.withTab(async ({ page, open, complaints }) => {
      const fine = page.getByText('Nothing needs attention.');
      await answer(page, '/incidents', { incidents: [], next_cursor: null });
      await answer(page, '/system/doctor', healthy);
      await open('/ui');
      await fine.waitFor();
      expect(await page.locator('.nav-count').count()).toBe(0);
      await answer(page, '/system/doctor', { error: 'the ledger is gone', code: 'X' }, 503);
      await open('/ui?');
      await page.getByText('Not everything that may need attention').waitFor();
      expect(await fine.count()).toBe(0);
      for (const complaint of complaints.splice(0)) expect(complaint).toContain('503');
    }));

  test('shows open incidents to a token that may not ask doctor', () =>
    place.withTab(async ({ page, open, complaints }) => {
      const incident = {
        incident_id: '0199a1b2-0000-7000-8000-000000000001',
        kind: 'breaker_open',
        key: 'mail/handle',
        status: 'open',
        message: 'The breaker of mail handle is open.',
        opened_at: '2026-01-01T00:00:00.000Z',
        last_seen_at: '2026-01-01T00:00:00.000Z',
        closed_at: null,
        count: 3,
        detail: {},
      };
      await answer(page, '/incidents', { incidents: [incident], next_cursor: null });
      await answer(page, '/system/doctor', { error: 'no', code: 'FORBIDDEN', hint: 'Ask.' }, 403);
      await open('/ui');
      await page.getByText('Not everything that may need attention').waitFor();
      const finding = page.getByRole('listitem').filter({ hasText: incident.message });
      await finding.getByRole('button', { name: 'Reset breaker' }).waitFor();
      const href = await finding.getByRole('link', { name: 'Open incident' }).getAttribute('href');
      expect(href).toBe(`/ui/incidents/${incident.incident_id}`);
      for (const complaint of complaints.splice(0)) expect(complaint).toContain('403');
    }));
});

test('a question that waits is decided from the Overview, with a reason', async () => {
  const run = await startWaitingRun(place, 'the backup');
  const finding = {
    severity: 'info',
    category: 'pipelines',
    place: 'approval_waiting:decide',
    key: 'decide',
    message: 'A run of the pipeline decide waits for approval.',
    fix: 'Approve or reject it.',
    id: 'approval_waiting:decide',
    evidence: `run ${run}: Go on with the backup?`,
    commands: [`ductile run approve ${run} agree`, `ductile run reject ${run} agree`],
    why: run,
    since: '2026-01-01T00:00:00.000Z',
    count: 1,
    detail: null,
  };
  await place.withTab(async ({ page, open, audit }) => {
    await answer(page, '/incidents', { incidents: [], next_cursor: null });
    await answer(page, '/system/doctor', { ...healthy, findings: [finding] });
    await open('/ui');
    const card = page.getByRole('list', { name: 'Needs attention' });
    await card.getByText(finding.message).waitFor();
    expect(await page.getByText('Nothing needs attention.').count()).toBe(0);
    await card.getByRole('button', { name: 'Approve' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.locator('blockquote').getByText('Go on with the backup?').waitFor();
    await dialog.getByLabel('Reason').fill('it is tested');
    expect(await audit()).toEqual([]);
    await dialog.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('Step approved').waitFor();
  });
  const { body } = await place.api.ask(`/runs/${run}`);
  expect(body['approvals']).toMatchObject([{ approved: true, reason: 'it is tested' }]);
});

describe('the page of doctor', () => {
  test('lists all findings, filtered by severity in the address, counted in the menu', () =>
    place.withTab(async ({ page, open, audit }) => {
      await open('/ui/doctor');
      const { body } = await place.api.ask('/system/doctor');
      const all = body['findings'] as { readonly severity: string }[];
      await page.getByRole('link', { name: /^Doctor \d+ findings$/ }).waitFor();
      const list = page.getByRole('list', { name: 'Findings' });
      await expect.poll(() => list.locator('> li').count()).toBe(all.length);
      expect(await audit()).toEqual([]);
      await page.getByRole('button', { name: /^Errors/ }).click();
      await page.waitForURL('**/ui/doctor?severity=error');
      const errors = all.filter(({ severity }) => severity === 'error').length;
      await expect.poll(() => list.locator('> li').count()).toBe(errors);
      await page.reload();
      await list.getByText('pipeline fragile halted').waitFor();
    }));

  test('says which scope a token lacks, and does not ask again with that token', async () => {
    const { token } = await place.post('/tokens', { name: 'narrow', scopes: ['jobs:ro'] });
    let requestCount = 0;
    await place.withTab(
      async ({ page, open, turn, complaints }) => {
        page.on('request', (request) => {
          if (new URL(request.url()).pathname === '/system/doctor') requestCount += 1;
        });
        await open('/ui/doctor');
        await page.getByText('Use a token with the scope system:ro.').waitFor();
        const before = requestCount;
        for (const path of ['/ui/jobs', '/ui', '/ui/doctor']) await turn(path);
        expect(requestCount).toBe(before);
        expect(await page.getByText('Doctor found').count()).toBe(0);
        for (const complaint of complaints.splice(0)) expect(complaint).toContain('403');
      },
      { token: String(token) },
    );
  });

  test('explains a finding, and resolves it with the keyboard alone', () =>
    place.withTab(async ({ page, open, audit }) => {
      await open('/ui/doctor?severity=error');
      const finding = page.getByRole('listitem').filter({ hasText: 'pipeline fragile halted' });
      await finding.getByRole('button', { name: 'Why' }).press('Enter');
      await finding.getByRole('region', { name: 'Why' }).waitFor();
      await finding.getByRole('button', { name: 'Revive run' }).press('Enter');
      const dialog = page.getByRole('dialog');
      await dialog.locator('.plan').getByText('fragile').first().waitFor();
      expect(await audit()).toEqual([]);
      await dialog.getByRole('button', { name: 'Revive run' }).press('Enter');
      await page.getByText('Run revived').waitFor();
      await finding.getByText(halted).first().waitFor({ state: 'detached' });
    }));
});

describe('an incident is acknowledged with a reason', () => {
  test('from the Overview, and is no longer reported', async () => {
    await haltedRun();
    await place.withTab(async ({ page, open, audit }) => {
      await open('/ui');
      const card = page.getByRole('list', { name: 'Needs attention' });
      const finding = card.getByRole('listitem').filter({ hasText: 'pipeline fragile halted' });
      await finding.getByRole('button', { name: 'Acknowledge' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.locator('.plan').getByText('run_halted:fragile').waitFor();
      await dialog.getByLabel('Reason').fill('done by hand');
      expect(await audit()).toEqual([]);
      await dialog.getByRole('button', { name: 'Acknowledge' }).click();
      await page.getByText('Incident acknowledged').waitFor();
      await finding.waitFor({ state: 'detached' });
    });
    const { text } = await place.api.ask('/directives?type=incident.acknowledge');
    expect(text).toContain('done by hand');
  });

  test('from its own page, and closes', async () => {
    await haltedRun();
    let id = '';
    await eventually('an incident', async () => {
      const { body } = await place.api.ask('/incidents?kind=run_halted');
      const [first] = body['incidents'] as { readonly incident_id: string }[];
      id = first?.incident_id ?? '';
      return id !== '';
    });
    await place.withTab(async ({ page, open, audit }) => {
      await open(`/ui/incidents/${id}`);
      await page.getByText('How to resolve it').waitFor();
      await page.getByRole('button', { name: 'Revive run' }).waitFor();
      expect(await audit()).toEqual([]);
      await page.getByRole('button', { name: 'Acknowledge' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Reason').fill('known');
      await dialog.getByRole('button', { name: 'Acknowledge' }).click();
      await page.getByText('Incident acknowledged').waitFor();
      await page.locator('.about').getByText('closed').waitFor();
    });
  });
});
