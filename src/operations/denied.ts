import { DuctileError } from '../base/errors.ts';
import type { Context } from './context.ts';
import { listDenied, type Denied } from './scopes.ts';

/** What a directive would run; what is left out may be anything. */
type Reach = Partial<Denied>;

/** A command that was denied to a token is not run for it by way of a directive either. */
export async function refuseDenied(context: Context, type: string, params: object): Promise<void> {
  const denied = listDenied(context.principal.scopes);
  if (denied.length === 0) return;
  const reach = await reachOf(context, type, params);
  if (reach === undefined) return;
  const hit = denied.find(
    ({ plugin, command }) =>
      (reach.plugin ?? plugin) === plugin && (reach.command ?? command) === command,
  );
  if (hit === undefined) return;
  throw new DuctileError('FORBIDDEN', `the token denies ${hit.plugin} ${hit.command}`, {
    hint: 'Name a plugin and a command that are not denied, or use another token.',
  });
}

async function reachOf(
  { engine }: Context,
  type: string,
  params: Reach & { readonly job_id?: unknown },
): Promise<Reach | undefined> {
  const { plugin, command, job_id: jobId } = params;
  if (type === 'plugin.init' && plugin !== undefined) return { plugin, command: 'init' };
  if (type !== 'job.retry') return undefined;
  if (typeof jobId === 'string') return await engine.ledger.job(jobId);
  return {
    ...(plugin === undefined ? {} : { plugin }),
    ...(command === undefined ? {} : { command }),
  };
}
