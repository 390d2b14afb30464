import { delimiter, dirname } from 'node:path';
import { pluginEnvironment } from '../plugin/protocol.ts';

/**
 * Puts our own Node first on the path, so that plugins in TypeScript find a version that is new
 * enough.
 */
export function createPluginEnvironment(passthrough: readonly string[]): Record<string, string> {
  const env = pluginEnvironment(process.env, passthrough);
  const path = [dirname(process.execPath), env['PATH'] ?? ''].filter((part) => part !== '');
  return { ...env, PATH: path.join(delimiter) };
}
