/** Texts of plugins, webhooks and tenants are shown as nothing but text. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  openDashboard,
  openIncident,
  runJob,
  startWaitingRun,
  type Dashboard,
} from '../support/dashboard.ts';
import { python } from '../support/plugin-program.ts';

const RIGHT_TO_LEFT = '\u202E';
const long = 'W'.repeat(3000);

/** Marks of what must not come to be: a script that ran leaves a name in the window. */
const hostile: Readonly<Record<string, string>> = {
  script: '<script>window.ran = 1</script>',
  image: '<img src=x onerror="window.ran = 1">',
  handler: '" onmouseover="window.ran = 1" x="',
  address: 'javascript:window.ran=1',
  style: '</style><style>body{display:none}</style>',
  template: '{{constructor.constructor("window.ran=1")()}}',
  bidi: `invoice_${RIGHT_TO_LEFT}gpj.exe`,
  hidden: 'pay\u200Bpal and\u2066 more\u2069',
  ansi: '\u001B[31mred\u001B[2J\u0007',
  long,
  null: 'null',
  undefined: 'undefined',
  prototype: '__proto__',
  inherited: 'constructor',
};
const all = Object.values(hostile).join(' | ');

/** Repeats its input in every field that a plugin can set. */
const parrot = python(`
text = payload["text"]
sys.stderr.write(text)
if payload.get("ok"):
    ok(json.dumps({text: text}), events=[{"type": text[:200], "payload": {text: text, "constructor": {"a": 1}}}])
fail(text, retry=False)
`);

let place: Dashboard;
const ids: Record<'failed' | 'fine' | 'run' | 'incident', string> = {
  failed: '',
  fine: '',
  run: '',
  incident: '',
};

beforeAll(async () => {
  const markup = `${hostile['image']}${hostile['script']}`;
  const parcel = {
    title: markup,
    description: all,
    config_schema: {
      type: 'object',
      properties: { [markup]: { type: 'string', description: all, default: markup } },
    },
  };
  place = await openDashboard({ program: parrot, parcel });
  const { post } = place;
  [ids.failed, ids.fine, ids.run] = await Promise.all([
    runJob(place, 'broken/handle', { text: all }),
    runJob(place, 'broken/handle', { text: all, ok: true }),
    startWaitingRun(place, all),
  ]);
  ids.incident = await openIncident(place, 'failure_streak', { text: all });
  const subject = `order/${hostile['image']}${hostile['bidi']}`;
  const expected = { source: hostile['script'], subject, data: hostile };
  await post('/signals', { type: 'order.paid', ...expected });
  await post('/tenants', { slug: 'acme', title: `${hostile['image']}${hostile['bidi']}` });
  const title = `${hostile['script']}${hostile['bidi']}`;
  const webhook = { title, description: all, plugin: 'echo', command: 'handle' };
  await post('/webhooks', { id: 'deploys', ...webhook });
});

afterAll(() => place.close());

const pages = (): string[] => [
  '/ui',
  '/ui/jobs',
  '/ui/jobs?query=%3Cscript%3E&plugin=__proto__&status=constructor',
  `/ui/jobs/${ids.failed}`,
  `/ui/jobs/${ids.fine}`,
  `/ui/runs/${ids.run}`,
  '/ui/signals',
  '/ui/signals?view=stream',
  '/ui/directives',
  '/ui/incidents?status=all',
  `/ui/incidents/${ids.incident}`,
  '/ui/tenants',
  '/ui/tenants/acme',
  '/ui/packages',
  '/ui/packages/parcel',
  '/ui/schedules/echo/often',
  '/ui/webhooks',
  '/ui/webhooks/deploys',
  '/ui/plugins/__proto__',
  '/ui/constructor/__proto__',
];

describe('hostile text', () => {
  test.each([1280, 380])('runs nowhere and breaks no page %i pixels wide', (width) =>
    place.withTab(
      async ({ page, open, turn, complaints }) => {
        await open('/ui');
        for (const path of pages()) {
          await turn(path);
          expect(await page.evaluate('window.ran'), path).toBeUndefined();
          expect(await page.locator('main img, main script, main style').count(), path).toBe(0);
          const over = 'document.documentElement.scrollWidth - innerWidth';
          expect(await page.evaluate(over), `${path} is too wide`).toBeLessThanOrEqual(0);
          const bad = complaints
            .splice(0)
            .filter((complaint) => !/status of (400|404)/.test(complaint));
          expect(bad, path).toEqual([]);
        }
      },
      { width },
    ),
  );

  test('is shown as it is, and what cannot be seen is shown by its name', () =>
    place.withTab(async ({ page, open }) => {
      await open(`/ui/jobs/${ids.failed}`);
      const error = page.locator('p.error');
      await error.getByText(hostile['image'] ?? '').waitFor();
      const shown = await error.innerText();
      expect(shown).not.toContain(RIGHT_TO_LEFT);
      expect(shown).toContain('invoice_202Egpj.exe');
      expect(shown).toContain('ESC[31mred');
      expect(shown).toContain('pay200Bpal');
      const marks = await error.locator('.mark').allInnerTexts();
      expect(marks).toEqual(['202E', '200B', '2066', '2069', 'ESC', 'ESC', '0007']);
      const whole = await page.locator('body').innerText();
      expect(whole).not.toMatch(/[\u202A-\u202E\u2066-\u2069\u200B]/);
    }));

  test('in a plan is text too', () =>
    place.withTab(async ({ page, open }) => {
      await open(`/ui/runs/${ids.run}`);
      await page.getByRole('button', { name: 'Approve' }).click();
      await page.locator('dialog .plan li').first().waitFor();
      expect(await page.evaluate('window.ran')).toBeUndefined();
      expect(await page.locator('dialog img, dialog script').count()).toBe(0);
    }));
});
