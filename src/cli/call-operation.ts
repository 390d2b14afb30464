import { DuctileError } from '../base/errors.ts';
import type { JsonOutput } from '../operation/define.ts';
import { HttpCaller } from './callers.ts';
import { commands } from './commands.ts';
import type { CommandDefinition } from './commands.ts';
import type { CommonFlags, LocalNeed, CliSession } from './host.ts';
import { addressElsewhere, findTarget, refuseElsewhere } from './options.ts';

export type OperationInput = Readonly<Record<string, unknown>>;

/** Calls the service that was named or that runs here, or opens the ledger if none runs. */
export async function callOperation(
  session: CliSession,
  options: CommonFlags,
  name: string,
  input: OperationInput,
): Promise<JsonOutput> {
  const definition = findCommand(name);
  const isHere = isForHere(session, options, definition);
  const target = isHere ? undefined : await findTarget(session, options);
  if (target !== undefined) return new HttpCaller(target).call(name, input);
  if (definition.needs === 'server' || (options.token !== undefined && !isHere))
    throw serverNeeded(`${definition.noun} ${definition.action}`);
  const door = await session.host.openLocal(options.config, findLocalNeed(definition, input));
  try {
    return await door.caller.call(name, input);
  } finally {
    await door.close();
  }
}

/**
 * True if the operation works on files of this machine, and no remote service was named that can do
 * the same.
 */
function isForHere(
  { io }: CliSession,
  options: CommonFlags,
  definition: CommandDefinition,
): boolean {
  if (definition.needs !== 'files') return false;
  if (definition.http !== undefined) return addressElsewhere(io, options) === undefined;
  refuseElsewhere(`${definition.noun} ${definition.action}`, options);
  return true;
}

export function findCommand(name: string): CommandDefinition {
  const definition = commands.find((candidate) => candidate.name === name);
  if (definition === undefined) throw new Error(`there is no command for ${name}`);
  return definition;
}

export function serverNeeded(what: string): DuctileError {
  return new DuctileError('SERVER_UNREACHABLE', `no server runs here, and \`${what}\` is for one`, {
    hint: 'Start it with `ductile system start`, or name one elsewhere with DUCTILE_URL.',
  });
}

/** Finds what has to be opened if no service runs. */
export function findLocalNeed(
  { effect, needs }: Pick<CommandDefinition, 'effect' | 'needs'>,
  input: OperationInput,
): LocalNeed {
  if (needs === 'files') return 'files';
  if (effect !== 'read' && input['dry_run'] !== true) return 'writing';
  return needs === 'ledger' ? 'ledger' : 'reading';
}
