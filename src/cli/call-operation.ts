import { DuctileError } from '../base/errors.ts';
import { toVisibleText } from '../base/text.ts';
import type { JsonOutput } from '../operation/define.ts';
import { HttpCaller } from './callers.ts';
import { commands, type CommandDefinition } from './commands.ts';
import type { CliIo, CliSession, CommonFlags, LocalNeed } from './host.ts';
import { parseUrl, type ControlSocket, type RemoteTarget, type ServerTarget } from './transport.ts';

export type OperationInput = Readonly<Record<string, unknown>>;

/** Calls the service that was named or that runs here, or opens the ledger if none runs. */
export async function callOperation(
  session: CliSession,
  options: CommonFlags,
  name: string,
  input: OperationInput,
): Promise<JsonOutput> {
  const definition = findCommand(name);
  const isHere = isLocal(session, options, definition);
  const target = isHere ? undefined : await findTarget(session, options);
  if (target !== undefined) return new HttpCaller(target).call(name, input);
  if (definition.needs === 'server' || (options.token !== undefined && !isHere))
    throw serverNeeded(`${definition.noun} ${definition.action}`);
  const local = await session.host.openLocal(options.config, findLocalNeed(definition, input));
  try {
    return await local.caller.call(name, input);
  } finally {
    await local.close();
  }
}

/**
 * True if the operation works on files of this machine, and no remote service was named that can do
 * the same.
 */
function isLocal({ io }: CliSession, options: CommonFlags, definition: CommandDefinition): boolean {
  if (definition.needs !== 'files') return false;
  if (definition.http !== undefined) return findRemoteUrl(io, options) === undefined;
  refuseRemote(`${definition.noun} ${definition.action}`, options);
  return true;
}

export function findCommand(name: string): CommandDefinition {
  const definition = commands.find((candidate) => candidate.name === name);
  if (definition === undefined) throw new Error(`there is no command for ${name}`);
  return definition;
}

export function serverNeeded(what: string): DuctileError {
  return new DuctileError('SERVER_UNREACHABLE', `\`${what}\` needs a service, and none runs here`, {
    hint: 'Start one with `ductile system start`, or set DUCTILE_URL to a service elsewhere.',
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

/**
 * Finds the service to call: the named one, else the one that runs here; undefined if none runs.
 */
export async function findTarget(
  { host, io }: CliSession,
  options: CommonFlags,
): Promise<ServerTarget | undefined> {
  const { config, token } = options;
  const address = findRemoteUrl(io, options);
  if (address !== undefined) {
    const target = {
      url: parseUrl(address),
      token: nonBlank(token) ?? nonBlank(io.env['DUCTILE_TOKEN']),
    };
    warnOfPlainHttp(target, io);
    return target;
  }
  const found = await host.findSocket(config);
  if (found !== undefined) warnOfOtherConfig(found, io, options);
  // A token in the environment belongs to the service that is named there.
  return found === undefined ? undefined : { ...found, token: nonBlank(token) };
}

/** Returns the URL of the named service; undefined means the one that runs here. */
function findRemoteUrl(io: CliIo, { config, url }: CommonFlags): string | undefined {
  if (url !== undefined && config !== undefined) {
    throw new DuctileError('INPUT_INVALID', '--url and --config cannot be used together', {
      hint: 'Keep one of them.',
    });
  }
  // `--config` means the service of that configuration, whatever the environment says.
  return url ?? (config === undefined ? nonBlank(io.env['DUCTILE_URL']) : undefined);
}

/** Refuses `--url` for commands that work on files of this machine. */
export function refuseRemote(command: string, { url }: CommonFlags): void {
  if (url === undefined) return;
  throw new DuctileError('INPUT_INVALID', `${command} works on this machine only`, {
    place: 'url',
    hint: 'Run it on the host of that service, without --url.',
  });
}

const warned = new WeakSet<CliIo>();

/** Warns once for each command, although `--watch` sends many requests. */
function warnOfPlainHttp({ url, token }: RemoteTarget, io: CliIo): void {
  if (url.protocol !== 'http:' || token === undefined || isLoopback(url.hostname)) return;
  if (warned.has(io)) return;
  warned.add(io);
  io.stderr.write(
    `warning: the token goes to ${url.host} over plain HTTP, where others can read it; use https://\n`,
  );
}

/** Warns because every response is about another configuration than the named one. */
function warnOfOtherConfig({ otherConfig }: ControlSocket, io: CliIo, { json }: CommonFlags): void {
  if (otherConfig === undefined || warned.has(io)) return;
  warned.add(io);
  const { asked, used } = otherConfig;
  const warning = `the running service uses the configuration ${used}, not ${asked}`;
  const text = json === true ? JSON.stringify({ warning, asked, used }) : `warning: ${warning}`;
  io.stderr.write(`${toVisibleText(text)}\n`);
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname);
}

function nonBlank(text: string | undefined): string | undefined {
  return text === undefined || text.trim() === '' ? undefined : text.trim();
}
