/** A service with data for every page of the dashboard, and a browser. */
import { join } from 'node:path';
import { expect } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import { OWNER, startApi, type TestApi } from './api-server.ts';
import { openTab, startBrowser, type Tab, type TabOptions } from './browser.ts';
import { eventually } from './instance.ts';
import { manifest } from './packages.ts';
import { shell } from './plugin-program.ts';
import { writePlugin } from './plugin-tree.ts';

export interface Dashboard {
  readonly api: TestApi;
  /** Sends a POST as the owner; an error fails the test. */
  readonly post: (path: string, body?: object) => Promise<Record<string, unknown>>;
  /** Opens a new tab, and checks that it had no errors. */
  readonly withTab: (
    use: (tab: Tab) => Promise<void>,
    options?: Omit<TabOptions, 'origin'>,
  ) => Promise<void>;
  readonly close: () => Promise<void>;
}

const fails = shell(`cat > /dev/null; echo 'it went wrong' >&2
echo '{"status":"error","error":"no such thing","retry":false}'`);

/** Webhook endpoint of the configuration. */
export const ENDPOINT = {
  path: '/hook/parcels',
  plugin: 'echo',
  secret_ref: 'of_parcels',
  signature_header: 'X-Sig',
};
export const ENDPOINT_KEY = 'the-key-of-the-parcels';

export interface DashboardSetup {
  /** Program of the plugin `broken` (default: one that fails). */
  readonly program?: string;
  /** Additional pipelines. */
  readonly pipelines?: readonly JsonObject[];
  /** Additional package. */
  readonly parcel?: JsonObject;
  /** Host name in the browser (default: loopback). */
  readonly host?: string;
}

export async function openDashboard(more: DashboardSetup = {}): Promise<Dashboard> {
  const [api, browser] = await Promise.all([startApi(setup(more)), startBrowser()]);
  const origin = `http://${more.host ?? '127.0.0.1'}:${api.port}`;
  return {
    api,
    async post(path, body = {}) {
      const reply = await api.ask(path, { body: JSON.stringify(body) });
      expect(reply.status, reply.text).toBeLessThan(300);
      return reply.body;
    },
    async withTab(use, options = {}) {
      const tab = await openTab(browser, { origin, token: OWNER, ...options });
      try {
        await use(tab);
        expect(tab.complaints).toEqual([]);
      } finally {
        await tab.close();
      }
    },
    async close() {
      await browser.close();
      await api.close();
    },
  };
}

function setup({ program = fails, pipelines = [], parcel, host }: DashboardSetup) {
  const steps: JsonObject[] = [
    { id: 'look', uses: 'echo.handle' },
    {
      id: 'both_at_once',
      split: [
        { id: 'left', uses: 'echo.handle' },
        { id: 'right', uses: 'echo.handle' },
      ],
    },
    { id: 'agree', approve: { message: 'Go on with {payload.text}?' } },
    { id: 'finish', uses: 'echo.handle' },
  ];
  return {
    tenants: { trust: 'shared' },
    webhooks: { listen: '127.0.0.1:0', endpoints: [ENDPOINT] },
    tokens: [{ name: ENDPOINT.secret_ref, key: ENDPOINT_KEY, scopes: [] }],
    // The port isn't known yet, so the origin can't be listed.
    ...(host === undefined ? {} : { api: { allowed_origins: ['*'] } }),
    directives: { approval: ['plugin.disable'] },
    plugins: {
      echo: { schedules: [{ id: 'often', every: '5m' }] },
      broken: {
        circuit_breaker: { threshold: 1, reset_after: '1h' },
        schedules: [{ id: 'soon', every: '1h', command: 'poll' }],
      },
    },
    pipelines: [{ name: 'decide', steps }, ...pipelines],
    packages: {
      ...(parcel === undefined ? {} : { parcel: manifest({ slug: 'parcel', ...parcel }) }),
      greeter: manifest({
        requires: [{ plugin: 'echo', commands: ['poll'] }],
        config_schema: { type: 'object', properties: { word: { type: 'string', default: 'hi' } } },
        plugins: { greeting: { uses: 'echo', config: { word: '${config.word}' } } },
      }),
    },
    prepare: async (directory: string) => {
      const commands = 'commands: {poll: {type: read}, handle: {}}';
      const files = { name: 'broken', entrypoint: 'run', program, commands };
      await writePlugin(join(directory, 'plugins', 'broken'), files);
    },
  };
}

/** Runs a command, waits for its end, and returns the job's id. */
export async function runJob(
  { api, post }: Pick<Dashboard, 'api' | 'post'>,
  place: string,
  payload: object,
): Promise<string> {
  const { job_id: id } = await post(`/plugin/${place}`, { payload });
  await eventually('the end of a job', async () => {
    const { body } = await api.ask(`/job/${String(id)}`);
    if (body['status'] === 'queued' && body['last_error'] !== null) {
      throw new Error(`the job is tried again: ${JSON.stringify(body['last_error'])}`);
    }
    return body['completed_at'] !== null;
  });
  return String(id);
}

/** Lets commands of `broken` fail until there is an incident of this kind; returns its id. */
export async function openIncident(
  { api, post }: Pick<Dashboard, 'api' | 'post'>,
  kind: 'breaker_open' | 'failure_streak',
  payload: object = {},
): Promise<string> {
  const failing = Array.from({ length: limits.incident.streak }, () =>
    post('/plugin/broken/handle', { payload }),
  );
  await Promise.all(failing);
  let id = '';
  await eventually('an incident', async () => {
    const { body } = await api.ask(`/incidents?kind=${kind}`);
    const [first] = body['incidents'] as { readonly incident_id: string }[];
    id = first?.incident_id ?? '';
    return id !== '';
  });
  return id;
}

/** Starts a run, waits until it needs a decision, and returns its id. */
export async function startWaitingRun(
  { api, post }: Pick<Dashboard, 'api' | 'post'>,
  text: string,
): Promise<string> {
  const { run_id: id } = await post('/pipeline/decide', { payload: { text } });
  await eventually('a question', async () => {
    const { body } = await api.ask(`/runs/${String(id)}`);
    return JSON.stringify(body['waiting']).includes('approval');
  });
  return String(id);
}
