import { listDeniedCommands, type DeniedCommand, type StartedCommand } from '../access/scopes.ts';
import { DuctileError } from '../base/errors.ts';
import { listPipelineCommands } from '../pipeline/language/graph.ts';
import type { Context } from './context.ts';

type Caller = Pick<Context, 'engine' | 'principal'>;

/** Refuses a directive that would start a command that is denied to the token. */
export async function refuseDeniedDirective(
  { engine, principal: { scopes } }: Caller,
  type: string,
  params: object,
): Promise<void> {
  const denied = listDeniedCommands(scopes);
  if (denied.length > 0) refuseAny(denied, await engine.directives.findStarted(type, params));
}

/** Refuses a pipeline whose runs would start a command that is denied to the token. */
export function refuseDeniedPipeline(
  { principal: { scopes } }: Pick<Caller, 'principal'>,
  pipeline: Parameters<typeof listPipelineCommands>[0],
): void {
  const denied = listDeniedCommands(scopes);
  if (denied.length > 0) refuseAny(denied, listPipelineCommands(pipeline));
}

interface StartedWork {
  readonly jobs: readonly { readonly plugin: string; readonly command: string }[];
  readonly runs: readonly { readonly pipeline: string }[];
}

/** Refuses signals whose handlers would start a denied command. */
export function refuseDeniedFollowers(
  { engine, principal: { scopes } }: Caller,
  { jobs, runs }: StartedWork,
): void {
  const started = new Set(runs.map(({ pipeline }) => pipeline));
  refuseAny(listDeniedCommands(scopes), [
    ...jobs.map(({ plugin, command }) => ({ plugin, command, as: 'which handles the signal' })),
    ...engine.pipelines.filter(({ name }) => started.has(name)).flatMap(listPipelineCommands),
  ]);
}

function refuseAny(denied: readonly DeniedCommand[], started: readonly StartedCommand[]): void {
  for (const { plugin, command } of denied) {
    const match = started.find(
      (one) => (one.plugin ?? plugin) === plugin && (one.command ?? command) === command,
    );
    if (match === undefined) continue;
    const part = match.as === undefined ? '' : `, ${match.as}`;
    throw new DuctileError('FORBIDDEN', `the token denies ${plugin} ${command}${part}`, {
      hint: 'Use another token, or request work that does not start this command.',
    });
  }
}
