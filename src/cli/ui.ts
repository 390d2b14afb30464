import { isObject } from '../base/json.ts';
import { callOperation, findTarget } from './call-operation.ts';
import { makePrinter } from './print.ts';
import type { CommonFlags, CliSession } from './host.ts';

/** Prints the dashboard's URL and how to sign in; returns 1 if it is disabled. */
export async function showUi(session: CliSession, options: CommonFlags): Promise<number> {
  const target = await findTarget(session, options);
  const origin =
    target === undefined
      ? await configuredOrigin(session, options)
      : 'url' in target
        ? target.url.origin
        : await runningOrigin(session, options);
  const address = origin === null ? null : `${origin}/ui`;
  const printer = makePrinter(session.io, options);
  if (options.json === true) printer.json({ address });
  else if (address === null) {
    printer.line(
      'The dashboard needs the API. Enable it: ductile config set api.enabled=true --apply',
    );
  } else {
    printer.line(address);
    if (target === undefined) {
      printer.line('The service is not running. Start it: ductile system start');
    }
    printer.line('Create a token to sign in: ductile token create dashboard --role admin');
  }
  return address === null ? 1 : 0;
}

/** Asks the service, because the configuration may leave the port to the system. */
async function runningOrigin(session: CliSession, options: CommonFlags): Promise<string | null> {
  const { api } = await callOperation(session, options, 'system.status', {});
  return typeof api === 'string' ? api : null;
}

async function configuredOrigin(session: CliSession, options: CommonFlags): Promise<string | null> {
  const { config } = await callOperation(session, options, 'config.view', {});
  const api = isObject(config) && isObject(config['api']) ? config['api'] : {};
  const { enabled, listen } = api;
  if (enabled !== true || typeof listen !== 'string') return null;
  return toLoopbackUrl(`http://${listen}`);
}

/** Replaces the listening address with loopback, which works from this machine. */
export function toLoopbackUrl(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}
