import { isAtLeast } from '../base/roles.ts';
import type { Context } from './context.ts';
import type { Operation } from './define.ts';
import { allows, mayAllow, mayAllowPlugin } from '../access/scopes.ts';

/** A command that the caller may use. */
export interface OfferedCommand {
  readonly plugin: string;
  readonly command: string;
  readonly type: 'read' | 'write';
  /** The text of the plugin's author. */
  readonly description: string | undefined;
  readonly inputSchema: Readonly<Record<string, unknown>> | undefined;
}

/** True if the caller may be able to use an operation. `authorize` checks each call again. */
export function mayUse(
  { scope, role: least, offeredWith, effect, isForRoot }: Operation,
  { scopes, role, tenant }: Context['principal'],
): boolean {
  if (isForRoot === true && tenant !== undefined) return false;
  if (least !== undefined && !isAtLeast(role, least)) return false;
  if (scope === undefined) return true;
  if (typeof scope !== 'function') return allows(scopes, scope);
  if (offeredWith === 'plugin') return mayAllowPlugin(scopes);
  if (offeredWith !== undefined) return offeredWith.some((need) => allows(scopes, need));
  return mayAllow(scopes, effect === 'read' ? 'read' : 'write');
}

/** Lists the commands that the caller may use, sorted by name. */
export function listCommands({ engine, principal }: Context): OfferedCommand[] {
  const plugins = [...engine.catalog.plugins.values()].toSorted((a, b) =>
    a.name < b.name ? -1 : 1,
  );
  return plugins.flatMap(({ name: plugin, manifest }) =>
    Object.values(manifest.commands)
      .filter(({ name: command, type }) => allows(principal.scopes, { plugin, command, type }))
      .map(({ name: command, type, description, inputSchema }) => ({
        plugin,
        command,
        type,
        description,
        inputSchema,
      })),
  );
}
