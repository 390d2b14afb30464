import type { KeyPath } from './document.ts';

/** The reason why a key of another version isn't accepted, and its replacement. */
export interface KeyRefusal {
  readonly message: string;
  readonly hint: string;
}

const keptWithLog: KeyRefusal = {
  message: 'has no effect: an attempt is one row, which is kept as long as its log',
  hint: 'Remove it, and set service.job_log_retention.',
};
const sameUser: KeyRefusal = {
  message: 'is not supported: plugins run as the user of the service unless they are isolated',
  hint: 'Remove it, and set plugins.<name>.isolation to confine a plugin.',
};
const noVault: KeyRefusal = {
  message: 'is not supported: secrets come from the environment',
  hint: 'Write "${NAME}" where the secret belongs, and NAME=… into a file of environment_vars.include.',
};
const noRelay: KeyRefusal = {
  message: 'is not supported: there is no relay between instances',
  hint: 'Let hosts share one ledger with state.url, or send events with a plugin to the API of the other.',
};

/** By key, with `*` for any name or index. */
const refusals: Readonly<Record<string, KeyRefusal>> = {
  'service.job_transitions_retention': keptWithLog,
  'service.job_attempts_retention': keptWithLog,
  'service.unconfined': sameUser,
  'service.admission.fail_on_sidedoor': {
    message:
      'is not needed: plugins outside plugin_roots, or that other users can change, never load',
    hint: 'Remove it.',
  },
  'plugins.*.concurrency_safe': {
    message: 'must be true or false',
    hint: 'Write parallelism: 1 for a plugin whose jobs must run one at a time.',
  },
  'plugins.*.schedule': {
    message: 'is not a key: a plugin has a list of schedules',
    hint: 'Write schedules: [{ every: 5m }].',
  },
  'plugins.*.run_as': sameUser,
  'plugins.*.requires_vault': noVault,
  'plugins.*.vault_principal': noVault,
  'api.management_socket': {
    message: 'is not needed: a control socket for the operator is always in the state directory',
    hint: 'Remove it.',
  },
  'api.auth.tokens.*.secret_ref': {
    message: 'is not supported: secrets come from the environment',
    hint: 'Write token: "${NAME}".',
  },
  'pipelines.*.on-hook': {
    message: 'must be job.completed, job.failed or job.timed_out',
    hint: 'Write on: job.succeeded or on: job.dead.',
  },
  'pipelines.*.max_depth': {
    message: 'is not needed: a pipeline cannot call itself, and chains end at service.max_hops',
    hint: 'Remove it.',
  },
  'pipelines.*.steps.*.relay': noRelay,
  tcc_paths: {
    message: 'is not supported',
    hint: 'Remove it. The operating system asks for permission when needed.',
  },
  instances: noRelay,
  remote_ingress: noRelay,
  accounts: sameUser,
  secrets: noVault,
};

export function findKeyRefusal(path: KeyPath): KeyRefusal | undefined {
  const exact = path.map(String);
  // Only the second word of `plugins.mail`, or the fourth of `api.auth.tokens.0`, is variable.
  const general = exact.map((word, at) =>
    (at === 1 && exact[0] === 'plugins') || typeof path[at] === 'number' ? '*' : word,
  );
  const key = general.join('.');
  return Object.hasOwn(refusals, key) ? refusals[key] : undefined;
}
