import type { Catalog } from '../../plugin/catalog.ts';
import { type Check, type CheckContext, showText } from '../check.service.ts';
import { maskText } from '../../base/secrets.ts';
import { limits } from '../../base/limits.ts';
import type { Config } from '../../config/config.ts';
import type { Attempt } from '../../job/attempt.ts';
import type { LedgerSubset } from '../../ledger/ledger.ts';
import { isPassedVariable } from '../../plugin/protocol.ts';
import type { LiveFinding } from '../finding.ts';
import { fromTimestamp, toTimestamp } from '../../base/clock.ts';
import { formatDuration } from '../../base/quantity.ts';
import type { BreakerRow } from '../../schedule/breaker.ts';

/** Finds plugins that didn't load; their jobs wait. */
export const findUnloadedPlugins: Check = ({ catalog, isRoot }) => {
  const unloaded = [...(catalog?.unloaded ?? [])];
  return Promise.resolve(
    unloaded.map(([plugin, reason]) => ({
      kind: 'plugin_not_loaded',
      key: plugin,
      severity: 'error',
      category: 'plugins',
      message: `The plugin ${plugin} did not load, and its jobs wait.`,
      // The reason can name files of the machine.
      evidence: isRoot ? reason : 'the operator of the service can see the reason',
      fix: isRoot
        ? 'Fix what the evidence names, then reload the configuration.'
        : 'Ask the operator of the service to fix it.',
      commands: isRoot ? [...listRepairs(plugin, catalog), `ductile plugin show ${plugin}`] : [],
      detail: { plugin },
    })),
  );
};

/** Lists the commands that repair a plugin. The files have to be repaired before the reload. */
function listRepairs(plugin: string, catalog: Catalog | undefined): string[] {
  const hints = (catalog?.problems ?? []).filter((one) => one.plugin === plugin);
  const repairs = hints.flatMap(({ hint }) => /^Run: (.+)$/.exec(hint ?? '')?.[1] ?? []);
  return repairs.length === 0
    ? ['ductile system reload']
    : [[...new Set(repairs), 'ductile system reload'].join(' && ')];
}

/** Finds plugins whose init failed; everything else of them waits until it succeeds. */
export const findFailedSetups: Check = async ({ ledger, catalog }) => {
  const rows = await ledger.plugins.listHealth();
  const failed = rows.filter(
    ({ kind, status, plugin, fingerprint }) =>
      kind === 'init' &&
      status === 'unhealthy' &&
      // An init of another version or configuration says nothing about this one.
      catalog?.plugins.get(plugin)?.identity === fingerprint,
  );
  return failed.map(({ plugin, reason, jobId, updatedAt }) => ({
    kind: 'plugin_not_set_up',
    key: plugin,
    severity: 'error',
    category: 'plugins',
    message: `The init of the plugin ${plugin} failed, so its other jobs wait.`,
    evidence: `job ${jobId} failed: ${reason === null ? 'no reason was recorded' : maskText(reason)}`,
    fix: 'Fix the cause, then run the init again. The jobs that wait start when it has succeeded.',
    commands: [`ductile plugin init ${plugin}`],
    why: jobId,
    since: updatedAt,
    detail: { plugin, job_id: jobId },
  }));
};

/**
 * Finds plugins that the running service could not load, and that could be loaded by now. On the
 * command line, the other checks read the repaired files and find nothing.
 */
export const findUnloadedInService: Check = async ({ ledger, catalog, isRoot }) => {
  if (!isRoot || catalog === undefined) return [];
  const open = await ledger.incidents.list({ isOpen: true, limit: limits.pageRowsMax });
  const unloaded = open.filter(
    ({ kind, key }) => kind === 'plugin_not_loaded' && catalog.plugins.has(key),
  );
  if (unloaded.length === 0) return [];
  const [newest] = await ledger.snapshots.list(1);
  return unloaded
    .filter(({ lastSeenAt }) => newest === undefined || newest.createdAt <= lastSeenAt)
    .map(({ id, key, openedAt }) => ({
      kind: 'plugin_not_reloaded',
      key,
      severity: 'error',
      category: 'plugins',
      message: `The service has not loaded the plugin ${key}, and its jobs wait; it could be loaded now.`,
      evidence: `the incident ${id} is open since ${openedAt}, and the files of the plugin are sound`,
      fix: 'Reload the configuration.',
      commands: ['ductile system reload'],
      why: id,
      since: openedAt,
      detail: { plugin: key, incident_id: id },
    }));
};

/** Finds plugins whose last attempts failed because Ductile doesn't pass on an environment variable. */
export const findMissingVariables: Check = async ({ ledger, config, isRoot }) => {
  // Only the operator decides which variables the processes of tenants get.
  if (!isRoot) return [];
  const failures = await readFailures(ledger);
  const found = await Promise.all(
    failures.map(async (failure) => {
      const name = failure.names.find((one) => !isPassed(one, config));
      if (name === undefined || (await hasSucceededSince(ledger, failure))) return [];
      return [describeMissingVariable(failure, name, config)];
    }),
  );
  return found.flat();
};

interface NamedFailure {
  readonly attempt: Pick<Attempt, 'jobId' | 'plugin' | 'command' | 'completedAt' | 'id'>;
  readonly names: readonly string[];
}

interface KnownFailures {
  readonly newestId: string | undefined;
  readonly failures: readonly NamedFailure[];
}

const known = new WeakMap<object, KnownFailures>();

/** Reads failed attempts that name a variable. They have long texts, so the result is cached. */
async function readFailures(
  ledger: LedgerSubset<'attempts.list'>,
): Promise<readonly NamedFailure[]> {
  const [newest] = await ledger.attempts.list({ status: 'failed', limit: 1 });
  const before = known.get(ledger);
  if (before !== undefined && before.newestId === newest?.id) return before.failures;
  const attempts =
    newest === undefined
      ? []
      : await ledger.attempts.list({ status: 'failed', limit: limits.checks.failuresRead });
  // The list is newest first, so the reversed entries leave the newest of each command.
  const byCommand = new Map(
    attempts.toReversed().map((one) => [`${one.plugin}/${one.command}`, one] as const),
  );
  const failures = [...byCommand.values()].flatMap(({ error, stderr, ...attempt }) => {
    const { id, jobId, plugin, command, completedAt } = attempt;
    const names = listMissingVariables(`${error ?? ''}\n${stderr ?? ''}`);
    return names.length === 0
      ? []
      : [{ attempt: { id, jobId, plugin, command, completedAt }, names }];
  });
  known.set(ledger, { newestId: newest?.id, failures });
  return failures;
}

/** Messages of runtimes and people that a variable is not set. The name is in the first group. */
const messagePatterns: readonly RegExp[] = [
  /KeyError: ['"]([A-Z][A-Z0-9_]{1,63})['"]/g,
  /\b([A-Z][A-Z0-9_]{1,63}): (?:unbound variable|parameter (?:null or )?not set)/g,
  /\b(?:environment variable|env var|variable)s? [`'"$]?\{?([A-Z][A-Z0-9_]{1,63})\b/gi,
  /\b([A-Z][A-Z0-9_]{1,63})\b\}?[`'"]? (?:is|was|has) (?:not (?:set|defined|provided)|unset|undefined)/g,
  /\b([A-Z][A-Z0-9]*_[A-Z0-9_]{1,63})\b\}?[`'"]? (?:is|was) (?:missing|required)/g,
  /\b([A-Z][A-Z0-9_]{1,63})\b\}?[`'"]? must be (?:set|defined|provided)/g,
  /\b(?:missing|undefined|unset|no|set) (?:required )?[`'"$]?([A-Z][A-Z0-9]*_[A-Z0-9_]{1,63})\b/gi,
  /process\.env\.([A-Z][A-Z0-9_]{1,63})\b/g,
];

/** Lists the variables that a text reports as missing. */
export function listMissingVariables(text: string): string[] {
  const found = messagePatterns.flatMap((pattern) =>
    [...text.matchAll(pattern)].map(([, name = '']) => name),
  );
  return [...new Set(found)].filter((name) => /^[A-Z][A-Z0-9_]+$/.test(name));
}

function isPassed(name: string, { service }: Config): boolean {
  return isPassedVariable(name, service.pluginEnvPassthrough);
}

async function hasSucceededSince(
  ledger: LedgerSubset<'attempts.list'>,
  { attempt: { plugin, command, completedAt } }: NamedFailure,
): Promise<boolean> {
  const successes = await ledger.attempts.list({
    plugin,
    status: 'succeeded',
    limit: limits.checks.successesRead,
  });
  return successes.some((one) => one.command === command && one.completedAt > completedAt);
}

function describeMissingVariable(
  { attempt: { plugin, command, jobId, completedAt } }: NamedFailure,
  name: string,
  { service }: Config,
): LiveFinding {
  const list = JSON.stringify([...service.pluginEnvPassthrough, name]);
  return {
    kind: 'plugin_env_missing',
    key: `${plugin}/${name}`,
    severity: 'error',
    category: 'plugins',
    message:
      `${plugin} ${command} failed because it lacks the environment variable ${name}, ` +
      'which Ductile does not pass on to plugins.',
    evidence: `the error of job ${jobId} names ${name}; service.plugin_env_passthrough doesn't`,
    fix: `Add ${name} to service.plugin_env_passthrough, reload, and set it for the service.`,
    commands: [
      `ductile config set 'service.plugin_env_passthrough=${list}' --apply && ductile system reload`,
      `ductile job retry ${jobId}`,
    ],
    why: jobId,
    since: completedAt,
    detail: { plugin, command, variable: name, job_id: jobId },
  };
}

/** Finds circuit breakers that hold back schedules. */
export const findOpenBreakers: Check = async (context) => {
  const rows = await context.ledger.breakers.list({});
  const open = rows.filter(({ state }) => state !== 'closed');
  return await Promise.all(open.map((row) => describeBreaker(row, context)));
};

async function describeBreaker(
  row: BreakerRow,
  { ledger, now }: CheckContext,
): Promise<LiveFinding> {
  const { plugin, command, state, failureCount, openedAt, lastJobId, resetAfterMs } = row;
  const job = lastJobId === null ? undefined : await ledger.jobs.find(lastJobId);
  const error = await showText(ledger, job?.lastError ?? null, job ?? {});
  const triesAt =
    openedAt === null ? undefined : toTimestamp(fromTimestamp(openedAt) + resetAfterMs);
  const failures = failureCount === 1 ? 'one failure' : `${failureCount} failures in a row`;
  const shown = state === 'open' ? 'open' : 'half open';
  const next = describeNext(state, triesAt, now);
  const source = lastJobId === null ? '' : ` (job ${lastJobId})`;
  const fix =
    'Fix the cause of the failures. ' +
    'Then close the breaker, or wait: after its reset time it lets one job through.';
  return {
    kind: 'breaker_open',
    key: `${plugin}/${command}`,
    severity: 'error',
    category: 'plugins',
    message: `The breaker of ${plugin} ${command} is ${shown}: its schedules start no jobs. ${next}`,
    evidence: `${failures}; last error: ${error}${source}`,
    fix,
    commands: [`ductile system reset ${plugin} --command ${command}`],
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
}

function describeNext(
  state: BreakerRow['state'],
  triesAt: string | undefined,
  now: string,
): string {
  if (state !== 'open' || triesAt === undefined) return 'A probe decides whether it closes.';
  const inMs = fromTimestamp(triesAt) - fromTimestamp(now);
  if (inMs <= 0) return 'It lets a probe through at the next due time.';
  return `It lets a probe through after ${triesAt}, in ${formatDuration(Math.ceil(inMs / 1000) * 1000)}.`;
}
