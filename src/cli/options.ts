import { DuctileError } from '../base/errors.ts';
import { toVisibleText } from '../base/text.ts';
import type { CliIo, CommonFlags, CliSession } from './host.ts';
import { Printer } from './print.ts';
import type { OutputTarget } from './print.ts';
import { parseUrl } from './transport.ts';
import type { ControlSocket, RemoteTarget, ServerTarget } from './transport.ts';

export function makePrinter(io: OutputTarget, options: CommonFlags): Printer {
  const { verbose = false, color = true, config, url } = options;
  const target = [
    ...(config === undefined ? [] : ['--config', config]),
    ...(url === undefined ? [] : ['--url', url]),
  ];
  return new Printer(io, { isVerbose: verbose, hasColors: io.hasColors && color, target });
}

/**
 * Finds the service to call: the named one, else the one that runs here; undefined if none runs.
 */
export async function findTarget(
  { host, io }: CliSession,
  options: CommonFlags,
): Promise<ServerTarget | undefined> {
  const { config, token } = options;
  const address = addressElsewhere(io, options);
  if (address !== undefined) {
    const target = {
      url: parseUrl(address),
      token: named(token) ?? named(io.env['DUCTILE_TOKEN']),
    };
    warnOfPlainHttp(target, io);
    return target;
  }
  const found = await host.findSocket(config);
  if (found !== undefined) warnOfOtherConfig(found, io, options);
  // A token in the environment belongs to the service that is named there.
  return found === undefined ? undefined : { ...found, token: named(token) };
}

/** Returns the URL of the named service; undefined means the one that runs here. */
export function addressElsewhere(io: CliIo, { config, url }: CommonFlags): string | undefined {
  if (url !== undefined && config !== undefined) {
    throw new DuctileError('INPUT_INVALID', '--url and --config name two different servers', {
      hint: 'Keep one of them.',
    });
  }
  // `--config` means the service of that configuration, whatever the environment says.
  return url ?? (config === undefined ? named(io.env['DUCTILE_URL']) : undefined);
}

/** Refuses `--url` for commands that work on files of this machine. */
export function refuseElsewhere(command: string, { url }: CommonFlags): void {
  if (url === undefined) return;
  throw new DuctileError('INPUT_INVALID', `${command} works on this machine only`, {
    place: 'url',
    hint: 'Run it on the machine that it is about, without --url.',
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
  const warning = `the service that answers uses the configuration ${used}, not ${asked}`;
  const text = json === true ? JSON.stringify({ warning, asked, used }) : `warning: ${warning}`;
  io.stderr.write(`${toVisibleText(text)}\n`);
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname);
}

function named(text: string | undefined): string | undefined {
  return text === undefined || text.trim() === '' ? undefined : text.trim();
}
