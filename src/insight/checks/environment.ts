import { limits } from '../../base/limits.ts';
import type { Config } from '../../config/config.ts';
import type { Attempt } from '../../job/attempt.ts';
import type { LedgerSubset } from '../../ledger/ledger.ts';
import { isPassedVariable } from '../../plugin/protocol.ts';
import type { Check } from '../check.service.ts';
import type { LiveFinding } from '../finding.ts';

/** Finds plugins whose last attempts failed for want of an environment variable that isn't passed on. */
export const findMissingVariables: Check = async ({ ledger, config, isRoot }) => {
  // What the processes of all tenants get is for the operator to say.
  if (!isRoot) return [];
  const failures = await readFailures(ledger);
  const found = await Promise.all(
    failures.map(async (failure) => {
      const name = failure.names.find((one) => !isPassed(one, config));
      if (name === undefined || (await hasSucceededSince(ledger, failure))) return [];
      return [describeMissing(failure, name, config)];
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

/** Attempts can have long texts, so they are read only if there is a new one. */
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
  // The newest of each command.
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

/** How runtimes and people say that a variable is not set; the name is in the first group that matched. */
const complaints: readonly RegExp[] = [
  /KeyError: ['"]([A-Z][A-Z0-9_]{1,63})['"]/g,
  /\b([A-Z][A-Z0-9_]{1,63}): (?:unbound variable|parameter (?:null or )?not set)/g,
  /\b(?:environment variable|env var|variable)s? [`'"$]?\{?([A-Z][A-Z0-9_]{1,63})\b/gi,
  /\b([A-Z][A-Z0-9_]{1,63})\b\}?[`'"]? (?:is|was|has) (?:not (?:set|defined|provided)|unset|undefined)/g,
  /\b([A-Z][A-Z0-9]*_[A-Z0-9_]{1,63})\b\}?[`'"]? (?:is|was) (?:missing|required)/g,
  /\b([A-Z][A-Z0-9_]{1,63})\b\}?[`'"]? must be (?:set|defined|provided)/g,
  /\b(?:missing|undefined|unset|no|set) (?:required )?[`'"$]?([A-Z][A-Z0-9]*_[A-Z0-9_]{1,63})\b/gi,
  /process\.env\.([A-Z][A-Z0-9_]{1,63})\b/g,
];

/** Names of variables that a text says are missing. */
export function listMissingVariables(text: string): string[] {
  const found = complaints.flatMap((pattern) =>
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

function describeMissing(
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
