import { fromTimestamp, toTimestamp, type Timestamp } from '../../base/clock.ts';
import { formatDuration } from '../../base/quantity.ts';
import { maskText } from '../../base/secrets.ts';
import { quoteShell } from '../../base/text.ts';
import { sentence } from '../../config/problem.ts';
import type { PluginHealth } from '../../job/types.ts';
import type { Catalog } from '../../plugin/catalog.ts';
import type { BreakerRow } from '../../schedule/breaker.ts';
import { defineFinding, listOpenIncidents, showText } from '../define-finding.service.ts';
import type { Incident } from '../types.ts';

interface UnloadedPlugin {
  readonly plugin: string;
  readonly catalog: Pick<Catalog, 'problems'>;
  /** False in a tenant's ledger: the reason can name files of the machine. */
  readonly isRoot: boolean;
}

export const pluginNotLoaded = defineFinding<UnloadedPlugin>({
  kind: 'plugin_not_loaded',
  condition: 'An enabled plugin could not be loaded, and its jobs wait.',
  rank: { severity: 'error', category: 'plugins', repair: 'plugin' },
  fix: 'Fix what the evidence names, then reload the configuration.',
  command: 'ductile config check',
  incident: 'found',
  find: ({ catalog, isRoot }) =>
    Promise.resolve(
      catalog === undefined
        ? []
        : [...catalog.unloaded.keys()].map((plugin) => ({ plugin, catalog, isRoot })),
    ),
  describe({ plugin, catalog, isRoot }) {
    const problems = catalog.problems.filter((one) => one.plugin === plugin);
    const common = {
      key: plugin,
      message: `The plugin ${plugin} did not load, and its jobs wait.`,
      detail: { plugin },
    };
    if (!isRoot) {
      return {
        ...common,
        evidence: 'the operator of the service can see the reason',
        fix: 'Ask the operator of the service to fix it.',
        commands: [],
      };
    }
    // The files have to be repaired before the reload.
    const repairs = problems.flatMap(({ hint }) => /^Run: (.+)$/.exec(hint ?? '')?.[1] ?? []);
    return {
      ...common,
      evidence: problems.map(sentence).at(-1) ?? 'the reason is in the log of the service',
      commands: [
        [...new Set(repairs), 'ductile system reload'].join(' && '),
        `ductile plugin show ${quoteShell(plugin)}`,
      ],
    };
  },
});

export const pluginNotSetUp = defineFinding<PluginHealth>({
  kind: 'plugin_not_set_up',
  condition: 'The setup (`init`) of a plugin failed, and its jobs wait.',
  rank: { severity: 'error', category: 'plugins', repair: 'plugin' },
  fix: 'Fix the cause, then run the init again. The jobs that wait start when it has succeeded.',
  command: 'ductile plugin init PLUGIN',
  incident: 'found',
  async find({ ledger, catalog }) {
    const rows = await ledger.plugins.listHealth();
    return rows.filter(
      ({ kind, status, plugin, fingerprint }) =>
        kind === 'init' &&
        status === 'unhealthy' &&
        // An init of another version or configuration says nothing about this one.
        catalog?.plugins.get(plugin)?.identity === fingerprint,
    );
  },
  describe: ({ plugin, reason, jobId, updatedAt }) => ({
    key: plugin,
    message: `The init of the plugin ${plugin} failed, so its other jobs wait.`,
    evidence: `job ${jobId} failed: ${reason === null ? 'no reason was recorded' : maskText(reason)}`,
    commands: [`ductile plugin init ${quoteShell(plugin)}`],
    why: jobId,
    since: updatedAt,
    detail: { plugin, job_id: jobId },
  }),
});

/** On the command line, the other findings read the repaired files and find nothing. */
export const pluginNotReloaded = defineFinding<Incident>({
  kind: 'plugin_not_reloaded',
  condition: 'The service started without a plugin that could be loaded now.',
  rank: { severity: 'error', category: 'plugins' },
  fix: 'Reload the configuration.',
  command: 'ductile system reload',
  async find(context) {
    const { ledger, catalog, isRoot } = context;
    if (!isRoot || catalog === undefined) return [];
    const unloaded = (await listOpenIncidents(context)).filter(
      ({ kind, key }) => kind === pluginNotLoaded.kind && catalog.plugins.has(key),
    );
    if (unloaded.length === 0) return [];
    const [newest] = await ledger.snapshots.list(1);
    return unloaded.filter(
      ({ lastSeenAt }) => newest === undefined || newest.createdAt <= lastSeenAt,
    );
  },
  describe: ({ id, key, openedAt }) => ({
    key,
    message: `The service has not loaded the plugin ${key}, and its jobs wait; it could be loaded now.`,
    evidence:
      `the incident ${id} is open since ${openedAt}, ` +
      'and the files of the plugin have no errors',
    commands: ['ductile system reload'],
    why: id,
    since: openedAt,
    detail: { plugin: key, incident_id: id },
  }),
});

const BREAKER_FIX = 'Fix the cause of the failures.';

interface OpenBreaker {
  readonly row: BreakerRow;
  /** The error of the last job. Undefined if it wasn't read. */
  readonly error?: string;
  readonly now?: Timestamp | undefined;
}

export const breakerOpen = defineFinding<OpenBreaker>({
  kind: 'breaker_open',
  condition: 'A command failed so often in a row that its schedules are held back.',
  rank: { severity: 'error', category: 'plugins' },
  fix: `${BREAKER_FIX} Then close the breaker, or wait: after its reset time it lets one job through.`,
  command: 'ductile breaker reset PLUGIN',
  incident: 'found',
  async find({ ledger, now }) {
    const rows = await ledger.breakers.list({});
    const open = rows.filter(({ state }) => state !== 'closed');
    return await Promise.all(
      open.map(async (row) => {
        const job = row.lastJobId === null ? undefined : await ledger.jobs.find(row.lastJobId);
        return { row, error: await showText(ledger, job?.lastError ?? null, job ?? {}), now };
      }),
    );
  },
  describe({ row, error, now }) {
    const { plugin, command, state, failureCount, openedAt, lastJobId, resetAfterMs } = row;
    const triesAt =
      openedAt === null ? undefined : toTimestamp(fromTimestamp(openedAt) + resetAfterMs);
    const failures = failureCount === 1 ? 'one failure' : `${failureCount} failures in a row`;
    const last = error === undefined ? '' : `; last error: ${error}`;
    const source = lastJobId === null ? '' : ` (job ${lastJobId})`;
    const shown = state === 'open' ? 'open' : 'half open';
    return {
      key: `${plugin}/${command}`,
      message: `The breaker of ${plugin} ${command} is ${shown}: its schedules start no jobs.`,
      evidence: `${failures}${last}${source}`,
      fix: `${BREAKER_FIX} Then close the breaker, or wait: ${describeProbe(state, triesAt, now)}.`,
      commands: [`ductile breaker reset ${quoteShell(plugin)} --command ${quoteShell(command)}`],
      why: lastJobId ?? undefined,
      since: openedAt,
      detail: {
        plugin,
        command,
        state,
        failures: failureCount,
        job_id: lastJobId,
        tries_again_at: triesAt ?? null,
      },
    };
  },
});

function describeProbe(
  state: BreakerRow['state'],
  triesAt: Timestamp | undefined,
  now: Timestamp | undefined,
): string {
  if (state !== 'open' || triesAt === undefined) return 'a probe decides whether it closes';
  if (now === undefined) return `it lets a probe through after ${triesAt}`;
  const inMs = fromTimestamp(triesAt) - fromTimestamp(now);
  if (inMs <= 0) return 'it lets a probe through at the next due time';
  return `it lets a probe through after ${triesAt}, in ${formatDuration(Math.ceil(inMs / 1000) * 1000)}`;
}
