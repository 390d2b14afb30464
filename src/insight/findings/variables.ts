import { limits } from '../../base/limits.ts';
import type { Attempt } from '../../job/attempt.ts';
import type { LedgerSubset } from '../../ledger/ledger.ts';
import { isPassedVariable } from '../../plugin/protocol.ts';
import { defineFinding } from '../define-finding.service.ts';

/** A failed attempt, and the variables that its texts report as missing. */
interface NamedFailure {
  readonly attempt: Pick<Attempt, 'jobId' | 'plugin' | 'command' | 'completedAt' | 'id'>;
  readonly names: readonly string[];
}

export const pluginEnvMissing = defineFinding({
  kind: 'plugin_env_missing',
  condition:
    'The last failure of a command names an environment variable that Ductile does not pass on.',
  rank: { severity: 'error', category: 'plugins' },
  fix: 'Add the variable to service.plugin_env_passthrough, reload, and set it for the service.',
  command: 'ductile config set service.plugin_env_passthrough',
  incident: 'found',
  async find({ ledger, config: { service }, isRoot }) {
    // Only the operator decides which variables the processes of tenants get.
    if (!isRoot) return [];
    const failures = await readFailures(ledger);
    const found = await Promise.all(
      failures.map(async (failure) => {
        const name = failure.names.find(
          (one) => !isPassedVariable(one, service.pluginEnvPassthrough),
        );
        if (name === undefined || (await hasSucceededSince(ledger, failure))) return [];
        return [{ ...failure, name, service }];
      }),
    );
    return found.flat();
  },
  describe({ attempt: { plugin, command, jobId, completedAt }, name, service }) {
    const list = JSON.stringify([...service.pluginEnvPassthrough, name]);
    return {
      key: `${plugin}/${name}`,
      message:
        `${plugin} ${command} failed because it lacks the environment variable ${name}, ` +
        'which Ductile does not pass on to plugins.',
      evidence: `the error of job ${jobId} names ${name}; service.plugin_env_passthrough doesn't`,
      commands: [
        `ductile config set 'service.plugin_env_passthrough=${list}' --apply && ductile system reload`,
        `ductile job retry ${jobId}`,
      ],
      why: jobId,
      since: completedAt,
      detail: { plugin, command, variable: name, job_id: jobId },
    };
  },
});

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
