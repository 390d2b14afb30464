/** Functions for directives of tests. */
import { DuctileError } from '../../src/base/errors.ts';
import type { DirectiveResult } from '../../src/directive/result.service.ts';
import type { DirectiveRequest } from '../../src/directive/define.service.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { Job } from '../../src/job/job.ts';

const actor = 'cli:test';

export function pause(engine: Engine): Promise<DirectiveResult> {
  return engine.direct({ type: 'system.pause', params: {}, actor });
}

export function resume(engine: Engine): Promise<DirectiveResult> {
  return engine.direct({ type: 'system.resume', params: {}, actor });
}

/** Cancels a job, and returns it without waiting for its end. */
export async function cancel(engine: Engine, jobId: string): Promise<Job> {
  const { errorCode, error } = await engine.direct({
    type: 'job.cancel',
    params: { job_id: jobId },
    actor,
  });
  if (errorCode !== null) throw new DuctileError(errorCode, error ?? '');
  return engine.waitFor(jobId, 0);
}

export function ask(
  engine: Engine,
  type: string,
  params: object,
  more: Partial<Omit<DirectiveRequest, 'type' | 'params'>> = {},
): Promise<DirectiveResult> {
  return engine.direct({ type, params, actor: 'cli:ann', ...more });
}
