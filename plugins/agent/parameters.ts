/**
 * Options that a payload may add to the command line. A payload can come from a webhook, or from the
 * agent itself by way of the API, so what would let an agent do more is for the operator to allow.
 */
import type { Fields } from '../../sdk/typescript/ductile-plugin.ts';
import type { Provider } from './providers.ts';

export interface ParameterRules {
  /** Names of options that the operator allows besides the harmless ones. */
  readonly alsoAllowed: readonly string[];
}

const PARAMETERS_MAX = 64;

/** Those that limit a run or word it, and whether they take a value. */
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
      // A word of its own would be taken for the prompt or for another command.
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
    // Without one it would take what follows: the end of the options, and the prompt would be one.
    const hasNone = given[index + 1]?.startsWith('-') ?? true;
    if (harmless === 'value' && mayBeValue && hasNone) throw refuse(`has ${name} without a value`);
  }
  return given;
}
