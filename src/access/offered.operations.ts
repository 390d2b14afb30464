import { isAtLeast } from './roles.ts';
import type { Context } from '../operation/context.ts';
import type { Operation } from '../operation/define.ts';
import { roleForOperation } from './operation-role.ts';
import { allows, mayAllow, mayAllowPlugin } from './scopes.ts';

/** A command of a plugin, as far as somebody must know it to use it. */
export interface OfferedCommand {
  readonly plugin: string;
  readonly command: string;
  readonly type: 'read' | 'write';
  /** In the words of whoever wrote the plugin. */
  readonly description: string | undefined;
  readonly inputSchema: Readonly<Record<string, unknown>> | undefined;
}

/**
 * Whether it makes sense to offer an operation to somebody. What is needed is decided again, by
 * `authorize`, when it is asked for.
 */
export function mayUse(
  { name, scope, offeredWith, effect, isForRoot }: Operation,
  { scopes, role, tenant }: Context['principal'],
): boolean {
  if (isForRoot === true && tenant !== undefined) return false;
  const least = roleForOperation(name);
  if (least !== undefined && !isAtLeast(role, least)) return false;
  if (scope === undefined) return true;
  if (typeof scope !== 'function') return allows(scopes, scope);
  if (offeredWith === 'plugin') return mayAllowPlugin(scopes);
  if (offeredWith !== undefined) return offeredWith.some((need) => allows(scopes, need));
  return mayAllow(scopes, effect === 'read' ? 'read' : 'write');
}

/** The commands that somebody may use, in the order of their names. */
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
