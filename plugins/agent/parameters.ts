/**
 * Options that a payload may add to the command line. A payload can come from a webhook, or from the agent
 * itself through the API. So only the operator can allow options that widen its rights.
 */
import type { Fields } from '../../sdk/typescript/ductile-plugin.ts';
import type { Provider } from './providers.ts';

export interface ParameterRules {
  /** Names of options that the operator allows besides the harmless ones. */
  readonly alsoAllowed: readonly string[];
}

const PARAMETERS_MAX = 64;

/** Options that only limit or word a run, and whether they have a value. */
const HARMLESS: Readonly<Record<Provider['kind'], Readonly<Record<string, 'flag' | 'value'>>>> = {
  claude: {
    '--append-system-prompt': 'value',
    '--disallowedTools': 'value',
    '--disallowed-tools': 'value',
    '--fallback-model': 'value',
    '--max-budget-usd': 'value',
    '--max-turns': 'value',
    '--verbose': 'flag',
  },
  codex: { '--ephemeral': 'flag', '--ignore-user-config': 'flag' },
  other: {},
};

export function readParameters(
  payload: Fields,
  { kind }: Provider,
  { alsoAllowed }: ParameterRules,
): readonly string[] {
  const given = payload.texts('cli_parameters');
  const refuse = (reason: string): Error => payload.refuse('cli_parameters', reason);
  if (given.length > PARAMETERS_MAX) throw refuse(`has more than ${PARAMETERS_MAX} entries`);
  let mayBeValue = false;
  for (const [index, part] of given.entries()) {
    if (part.includes('\0')) throw refuse('contains the character U+0000');
    if (!part.startsWith('-')) {
      // A single word would become the prompt or a subcommand.
      if (!mayBeValue) throw refuse(`has '${part}', which belongs to no option`);
      mayBeValue = false;
      continue;
    }
    const [name = ''] = part.split('=', 1);
    const harmless = Object.hasOwn(HARMLESS[kind], name) ? HARMLESS[kind][name] : undefined;
    if (harmless === undefined && !alsoAllowed.includes(name)) {
      throw refuse(`has ${name}, which config.payload_parameters does not allow`);
    }
    mayBeValue = harmless !== 'flag' && !part.includes('=');
    // An option without its value would consume the next argument.
    const hasNone = given[index + 1]?.startsWith('-') ?? true;
    if (harmless === 'value' && mayBeValue && hasNone) throw refuse(`has ${name} without a value`);
  }
  return given;
}
