/** The dashboard's texts about waiting runs, decisions, and repeated jobs. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openDashboard, runJob, startWaitingRun, type Dashboard } from '../support/dashboard.ts';
import { eventually } from '../support/instance.ts';
import { shell } from '../support/plugin-program.ts';

let place: Dashboard;

const program = shell(`cat > /dev/null
echo '{"status":"error","error":"the command failed","exit_code":3,"retry":false}'`);

beforeAll(async () => {
  place = await openDashboard({
    program,
    pipelines: [
      { name: 'fragile', steps: [{ id: 'breaks', uses: 'broken.handle' }] },
      { name: 'patient', steps: [{ id: 'nap', wait: { delay: '1h' } }] },
    ],
  });
});

afterAll(() => place.close());

/** Starts a run and gives its id when its state contains the text. */
async function startRun(pipeline: string, text: string): Promise<string> {
  const { run_id: id } = await place.post(`/pipeline/${pipeline}`, { payload: {} });
  await eventually(`a run with ${text}`, async () => {
    const { body } = await place.api.ask(`/runs/${String(id)}`);
    return JSON.stringify(body).includes(text);
  });
  return String(id);
}

describe('a run that waits', () => {
  test('is shown as waiting, with what it waits for', async () => {
    const id = await startRun('patient', '"kind":"time"');
    await place.withTab(async ({ page, open, audit }) => {
      await open('/ui/runs?pipeline=patient');
      const row = page.getByRole('row', { name: 'patient' });
      await row.getByText('waiting', { exact: true }).waitFor();
      await row.getByText('Waits for the time of nap').waitFor();
      expect(await row.getByText('running').count()).toBe(0);
      expect(await audit()).toEqual([]);
      await open(`/ui/runs/${id}`);
      const about = page.locator('.about');
      await about.getByText('waiting', { exact: true }).waitFor();
      await about.getByText(/continues in 59m|continues in 1h/).waitFor();
      expect(await about.getByText('running').count()).toBe(0);
    });
  });

  test('shows its question until it is approved, and afterwards its approver and the reason', async () => {
    const id = await startWaitingRun(place, 'the release');
    await place.withTab(async ({ page, open, audit }) => {
      await open('/ui/runs?status=awaiting');
      const row = page.getByRole('row', { name: 'Go on with the release?' });
      await row.getByText('waiting', { exact: true }).waitFor();
      await row.getByRole('link').first().click();
      await page.waitForURL(`**/ui/runs/${id}`);
      await page.getByRole('button', { name: 'Approve' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.locator('blockquote').getByText('Go on with the release?').waitFor();
      await dialog.getByText('Payload of the run').click();
      await dialog.getByText('"the release"').waitFor();
      await dialog.getByLabel('Reason').fill('read and checked');
      expect(await audit()).toEqual([]);
      await dialog.getByRole('button', { name: 'Approve' }).click();
      await page.getByText('Step approved').waitFor();
      const decisions = page.getByRole('list', { name: 'Decisions' });
      await decisions.getByText('approved').waitFor();
      await decisions.getByText('token:owner').waitFor();
      await decisions.getByText('read and checked').waitFor();
      await decisions.locator('time').waitFor();
      expect(await audit()).toEqual([]);
    });
  });

  test('that was rejected shows by whom, when and why', async () => {
    const id = await startWaitingRun(place, 'nothing');
    await place.withTab(async ({ page, open }) => {
      await open(`/ui/runs/${id}`);
      await page.getByRole('button', { name: 'Reject' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Reason').fill('too late');
      await dialog.getByRole('button', { name: 'Reject' }).click();
      await page.getByText('Step rejected').waitFor();
      const decisions = page.getByRole('list', { name: 'Decisions' });
      await decisions.getByText('rejected').waitFor();
      await decisions.getByText('token:owner').waitFor();
      await decisions.getByText('too late').waitFor();
    });
  });
});

describe('a failed job', () => {
  test('that was retried is marked and linked, and has no second Retry', async () => {
    const failed = await runJob(place, 'broken/poll', {});
    const { job_id: retry } = await place.post(`/job/${failed}/retry`);
    await place.withTab(async ({ page, open, audit }) => {
      await open('/ui/jobs?plugin=broken');
      const mark = page.getByRole('link', { name: 'retried' });
      expect(await mark.getAttribute('href')).toBe(`/ui/jobs/${String(retry)}`);
      expect(await audit()).toEqual([]);
      await open(`/ui/jobs/${failed}`);
      await page.getByText('This job was retried as').getByRole('link').waitFor();
      expect(await page.getByRole('button', { name: 'Retry' }).count()).toBe(0);
      await page.getByText('This job was retried as').getByRole('link').click();
      await page.waitForURL(`**/ui/jobs/${String(retry)}`);
    });
  });

  test('shows the exit code of its command', async () => {
    const failed = await runJob(place, 'broken/poll', {});
    await place.withTab(async ({ page, open }) => {
      await open(`/ui/jobs/${failed}`);
      await page.locator('.attempt-head').getByText('exit 3').waitFor();
    });
  });

  test('a failed step offers to revive its run, and no Retry', async () => {
    const run = await startRun('fragile', '"status":"halted"');
    const { body } = await place.api.ask(`/runs/${run}`);
    const [step] = body['steps'] as { readonly job_id: string }[];
    await place.withTab(async ({ page, open }) => {
      await open(`/ui/jobs/${step?.job_id ?? ''}`);
      await page.getByRole('button', { name: 'Revive run' }).click();
      expect(await page.getByRole('button', { name: 'Retry' }).count()).toBe(0);
      await page.getByRole('dialog').getByRole('button', { name: 'Revive run' }).click();
      await page.getByText('Run revived').waitFor();
      await page.waitForURL(/\/ui\/runs\/[0-9a-f-]{36}$/);
      await page.locator(`dd a[href="/ui/runs/${run}"]`).waitFor();
      // A run is revived once: its old job offers nothing that fails.
      await open(`/ui/jobs/${step?.job_id ?? ''}`);
      expect(await page.getByRole('button', { name: /Retry|Revive/ }).count()).toBe(0);
    });
  });
});

test('a schedule behind an open breaker shows its next real start and the reason', async () => {
  // The breaker of the scheduled command opens with the first failure, for an hour.
  await eventually('an open breaker', async () => {
    const { body } = await place.api.ask('/system/breaker/broken');
    return JSON.stringify(body['breakers']).includes('"state":"open"');
  });
  const { body } = await place.api.ask('/schedules?plugin=broken');
  const [row] = body['schedules'] as { readonly next_start_at: string }[];
  await place.withTab(async ({ page, open, audit }) => {
    await open('/ui/schedules');
    const line = page.getByRole('region', { name: 'Schedule broken soon' });
    await line.getByText('held', { exact: true }).waitFor();
    const state = line.locator('.schedule-state');
    await state.getByText('breaker').waitFor();
    const shown = await state.locator('.next-start time').getAttribute('datetime');
    expect(shown).toBe(row?.next_start_at);
    expect(await audit()).toEqual([]);
    await open('/ui/schedules/broken/soon');
    const fact = page.locator('.facts div', { hasText: 'Next start' });
    await fact.getByText('breaker').waitFor();
    expect(await fact.locator('time').getAttribute('datetime')).toBe(row?.next_start_at);
    // Times before the next real start are not promised.
    const [first] = await page.locator('.plain-list li').allTextContents();
    expect(first).toContain('breaker of broken poll is open');
  });
});
