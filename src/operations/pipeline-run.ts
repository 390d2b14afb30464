import * as z from 'zod';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { text } from '../base/fields.ts';
import type { StartedRun } from '../engine/engine.ts';
import { findPipeline } from '../engine/run-door.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import { isRunOver, type Run } from '../pipeline/run.ts';
import type { Context } from './context.ts';
import { refuseDeniedSteps } from './denied.ts';
import { defineOperation } from './define.ts';
import { readParts, showSteps } from './run-list.ts';
import { runShape, showRun, stepShape } from './run-shapes.ts';
import { parseStored } from './shapes.ts';
import { boundWait, waitField, whileWaiting } from './waiting.ts';

const runInput = z.strictObject({
  pipeline: text().describe('the name of the pipeline'),
  payload: z.record(z.string(), z.unknown()).default({}).describe('a JSON object'),
  async: z.boolean().default(false).describe('answer at once, whatever is said about waiting'),
  wait: waitField()
    .optional()
    .describe('how long to wait for the end of the run (of a synchronous one: its timeout)'),
  context: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('baggage for the run, a JSON object'),
});

export const runOutput = runShape.partial().extend({
  ...runShape.pick({ run_id: true, pipeline: true, status: true }).shape,
  job_id: z.string().nullable().describe('the job of its first step, when that is one'),
  timeout_exceeded: z.boolean().optional().describe('it had not ended when the wait was over'),
  result: z.unknown().optional().describe('what its last step gave'),
  tree: z.array(stepShape).optional().describe('every step that was taken, in order'),
  complete: z.boolean().optional().describe('false when there were more steps than can be shown'),
});

type RunInput = Pick<z.input<typeof runInput>, 'pipeline' | 'context'> & {
  readonly payload: Record<string, unknown>;
};
type RunOutput = z.output<typeof runOutput>;

export const runPipeline = defineOperation({
  name: 'pipeline.run',
  summary: 'Start a run of a pipeline and, if asked, wait for its end.',
  effect: 'write',
  scope: 'plugin:rw',
  input: runInput,
  output: runOutput,
  errors: [
    'BUSY',
    'FORBIDDEN',
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'LEDGER_UNCERTAIN',
    'PAYLOAD_TOO_LARGE',
    'PIPELINE_NOT_FOUND',
    'STOPPING',
  ],
  http: {
    method: 'POST',
    path: '/pipeline/:pipeline',
    body: 'payload',
    status: ({ completed_at }) => (typeof completed_at === 'string' ? 200 : 202),
  },
  cli: {
    positionals: ['pipeline'],
    flags: { wait: '--wait <duration>' },
    defaults: { wait: '5m' },
    examples: [
      'ductile pipeline run nightly-report',
      'ductile pipeline run photos --payload \'{"album":"2026"}\' --no-wait',
    ],
    exitCode: ({ status, timeout_exceeded }) =>
      status === 'succeeded' || (status !== 'halted' && timeout_exceeded !== true) ? 0 : 1,
  },
  async run(context, { wait, async: atOnce, ...wanted }) {
    const pipeline = findPipeline(wanted.pipeline, context.engine.pipelines);
    refuseDeniedSteps(context, pipeline);
    const waitMs = atOnce ? 0 : boundWait(context, waitOf(pipeline, wait));
    const begin = () => startRun(context, wanted, waitMs);
    // Who waits is admitted before anything is accepted.
    return await (waitMs === 0 ? begin() : whileWaiting(context, begin));
  },
  plan(context, { pipeline: name }) {
    const pipeline = findPipeline(name, context.engine.pipelines);
    refuseDeniedSteps(context, pipeline);
    const { first, hash } = pipeline.graph;
    return Promise.resolve([
      `A run of ${name} (definition ${hash.slice(0, HASH_SHOWN)}) would begin with ${first}.`,
    ]);
  },
});

const HASH_SHOWN = 12;

/** Who says nothing about waiting gets what the pipeline says. */
export function waitOf({ mode, timeoutMs }: Pipeline, asked?: boolean | number): number {
  if (typeof asked === 'number') return asked;
  const isWanted = asked ?? mode === 'synchronous';
  return isWanted ? timeoutMs : 0;
}

/** For callers who were admitted, if they wait. */
export async function startRun(
  context: Context,
  wanted: RunInput,
  waitMs: number,
): Promise<RunOutput> {
  if (waitMs === 0) return await accept(context, wanted);
  const started = await start(context, wanted);
  return await told(started.runId, () => answer(context, started, waitMs));
}

function start(context: Context, wanted: RunInput): Promise<StartedRun> {
  const { engine, principal, submittedBy, subjectId } = context;
  const { pipeline, payload, context: baggage } = wanted;
  return engine.startRun({
    ...(subjectId === undefined ? {} : { id: subjectId }),
    pipeline,
    payload: payload as JsonObject,
    submittedBy,
    actor: principal.actor,
    ...(baggage === undefined ? {} : { context: baggage as JsonObject }),
  });
}

/** Nothing is read back, unless the same may have been asked for before. */
async function accept(context: Context, wanted: RunInput): Promise<RunOutput> {
  const started = await start(context, wanted);
  const { runId, jobId } = started;
  if (context.subjectId === undefined) {
    return { run_id: runId, job_id: jobId ?? null, pipeline: wanted.pipeline, status: 'queued' };
  }
  return await told(runId, async () => {
    const run = await context.engine.waitForRun(runId, 0);
    return { ...showRun(run), job_id: firstJobOf(run, started) };
  });
}

async function answer(
  { engine, hungUp }: Context,
  started: StartedRun,
  waitMs: number,
): Promise<RunOutput> {
  const gone = hungUp?.();
  const run = await engine.waitForRun(started.runId, waitMs, gone);
  // With an error no answer is kept for its key: who asks again waits for the same run.
  if (gone?.aborted === true) throw new DuctileError('DEADLINE_EXCEEDED', 'the caller hung up');
  const shown = { ...showRun(run), job_id: firstJobOf(run, started) };
  if (!isRunOver(run.status)) return { ...shown, timeout_exceeded: true };
  const { steps, branches, complete } = await readParts(engine.ledger, run);
  return {
    ...shown,
    timeout_exceeded: false,
    result: parseStored(run.output),
    tree: showSteps(steps, branches),
    complete,
  };
}

/** A run that was begun by an earlier request of the same key has the job of then. */
function firstJobOf({ rootJobId, parentJobId }: Run, { jobId }: StartedRun): string | null {
  if (jobId === undefined) return null;
  return parentJobId === null ? rootJobId : jobId;
}

/** From its commit on, no failure may sound as if nothing had been accepted. */
async function told<T>(runId: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (thrown) {
    const error = toDuctileError(thrown);
    if (error.code !== 'LEDGER_UNAVAILABLE') throw error;
    const message = `run ${runId} was accepted, but what became of it cannot be read: ${error.message}`;
    throw new DuctileError('LEDGER_UNCERTAIN', message, {
      hint: 'Ask for that run when the database is back, instead of starting it again.',
      details: { run_id: runId },
      cause: thrown,
    });
  }
}
