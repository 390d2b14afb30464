/** Starts and reads runs of pipelines. */
import type { JsonObject } from '../../src/base/json.ts';
import type { Run, Step } from '../../src/pipeline/run/run.ts';
import type { TestInstance } from './instance.ts';

const patienceMs = 60_000;

export async function startRun(
  { engine }: Pick<TestInstance, 'engine'>,
  pipeline: string,
  payload: JsonObject = {},
  context?: JsonObject,
): Promise<string> {
  const { runId } = await engine.startRun({
    pipeline,
    payload,
    submittedBy: 'api',
    actor: 'test',
    ...(context === undefined ? {} : { context }),
  });
  return runId;
}

/** Starts a run and waits for its end. */
export async function finish(
  instance: Pick<TestInstance, 'engine'>,
  pipeline: string,
  payload: JsonObject = {},
  context?: JsonObject,
): Promise<Run> {
  return instance.engine.waitForRun(
    await startRun(instance, pipeline, payload, context),
    patienceMs,
  );
}

export function outputOf({ output }: Pick<Run, 'output'>): unknown {
  return output === null ? null : JSON.parse(output);
}

export function stepsOf({ ledger }: Pick<TestInstance, 'ledger'>, runId: string): Promise<Step[]> {
  return ledger.runs.listSteps({ runId, limit: 1000 });
}
