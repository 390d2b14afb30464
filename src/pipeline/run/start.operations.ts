import * as z from 'zod';
import { DuctileError, toDuctileError } from '../../base/errors.ts';
import { nonBlankText, toDue } from '../../base/fields.ts';
import { parseStoredJson } from '../../base/json.ts';
import { requirePipeline, type RunSubmission, type StartedRun } from './start.service.ts';
import type { Pipeline } from '../language/pipeline.ts';
import { isRunOver, type Run } from './run.ts';
import type { Context } from '../../operation/context.ts';
import { refuseDeniedPipeline } from '../../operation/denied-commands.ts';
import { defineOperation } from '../../operation/define.ts';
import {
  isDelayed,
  startFields,
  toStartRequest,
  limitWait,
  waitField,
  awaitEnd,
  withWaiterSlot,
} from '../../job/start-options.operations.ts';
import { unfinishedFields, readWaitingFor, waitingForShape } from './waits.service.ts';
import { runShape, showRun, stepShape, readParts, showSteps } from './run.service.ts';
import { readVisibility, maskRun, maskLedger } from '../../operation/visibility.ts';
import { limits } from '../../base/limits.ts';
import type { Attempt } from '../../job/attempt.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { requireRun, runIdField } from './run.operations.ts';
import { toJobWaitMs } from '../../job/start.operations.ts';

/** A job in the list of all jobs of a response. */
export const leafShape = z.object({
  job_id: z.string().nullable(),
  plugin: z.string().nullable().describe('null for a step without a plugin'),
  command: z.string().nullable(),
  status: z.string(),
  result: z.unknown().describe('result of the plugin; for a step without a plugin, its output'),
});

const treeShape = stepShape.extend({
  ...leafShape.omit({ status: true }).shape,
  output: z.unknown().describe("the branch's own part of the payload after the step"),
});

/** Reads the steps of a run in order, each with the result of its plugin, up to the size limit. */
async function readTree(
  ledger: Ledger,
  run: Run,
): Promise<{ tree: z.output<typeof treeShape>[]; complete: boolean }> {
  const { steps, branches, complete } = await readParts(ledger, run);
  const attempts = await readLastAttempts(
    ledger,
    steps.flatMap(({ jobId }) => jobId ?? []),
  );
  const tree = showSteps(steps, branches).map(({ result: output, ...step }) => {
    const attempt = attempts.get(step.job_id ?? '');
    const { plugin = null, command = null } = attempt ?? {};
    const result = step.job_id === null ? output : parseStoredJson(attempt?.result ?? null);
    return { ...step, plugin, command, result, output };
  });
  const isWhole = tree.every(({ job_id: id }) => id === null || attempts.has(id));
  return { tree, complete: complete && isWhole };
}

/** Jobs are read a few at a time, because a result can have megabytes. */
const JOBS_AT_ONCE = 50;

async function readLastAttempts(
  ledger: Ledger,
  jobIds: readonly string[],
): Promise<ReadonlyMap<string, Attempt>> {
  const last = new Map<string, Attempt>();
  let room = limits.runOutputBytesMax;
  for (let from = 0; from < jobIds.length && room > 0; from += JOBS_AT_ONCE) {
    for (const attempt of await ledger.attempts.listByJob(
      jobIds.slice(from, from + JOBS_AT_ONCE),
    )) {
      last.set(attempt.jobId, attempt);
      room -= attempt.result?.length ?? 0;
    }
  }
  return last;
}

/** Describes where to find work that has not ended in time. */
export function describeTimeout(jobId: string | null, runId?: string): string {
  const paths = [
    ...(jobId === null ? [] : [`/job/${jobId}`]),
    ...(runId === undefined ? [] : [`/runs/${runId}`]),
  ];
  return `Pipeline still running after timeout. Check ${paths.join(' or ')}`;
}

const runInput = z.strictObject({
  pipeline: nonBlankText().describe('the name of the pipeline'),
  payload: z.record(z.string(), z.unknown()).default({}).describe('a JSON object'),
  async: z.boolean().default(false).describe('return immediately, and ignore `wait`'),
  wait: waitField()
    .optional()
    .describe('longest wait for the run to finish (for a synchronous pipeline: its timeout)'),
  ...startFields,
});

export const runOutput = runShape.partial().extend({
  ...runShape.pick({ run_id: true, pipeline: true, status: true }).shape,
  job_id: z
    .string()
    .nullable()
    .describe('the job of the first step; null if there is none yet, then use `run_id`'),
  duplicate: z
    .boolean()
    .optional()
    .describe('true if this earlier run has the same dedupe key, and no run was started'),
  timeout_exceeded: z
    .boolean()
    .optional()
    .describe('true if the run did not finish during the wait'),
  waiting_for: waitingForShape.optional(),
  ...unfinishedFields,
  result: z.unknown().optional().describe('output of the last step'),
  tree: z.array(treeShape).optional().describe('the steps, in order of execution'),
  complete: z.boolean().optional().describe('false if the run is too large to show in full'),
});

type RunInput = Omit<z.output<typeof runInput>, 'wait' | 'async'>;
type RunOutput = z.output<typeof runOutput>;

export const runPipeline = defineOperation({
  name: 'pipeline.run',
  summary: 'Start a run of a pipeline, and optionally wait for it to finish.',
  effect: 'write',
  scope: 'plugin:rw',
  input: runInput,
  output: runOutput,
  errors: [
    'BUSY',
    'FORBIDDEN',
    'HOPS_EXCEEDED',
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'LEDGER_UNCERTAIN',
    'PAYLOAD_TOO_LARGE',
    'PIPELINE_NOT_FOUND',
    'STOPPING',
    'TENANT_LIMIT',
    'TENANT_SUSPENDED',
  ],
  http: {
    method: 'POST',
    path: '/pipeline/:pipeline',
    body: 'payload',
    status: ({ completed_at }) => (typeof completed_at === 'string' ? 200 : 202),
    location: '/runs/:run_id',
  },
  cli: {
    positionals: ['pipeline'],
    flags: { wait: '--wait <duration>' },
    defaults: { wait: '5m' },
    examples: [
      'ductile pipeline run nightly-report',
      'ductile pipeline run photos --payload \'{"album":"2026"}\' --no-wait',
    ],
    // A wait that ended before the run did is a failure.
    exitCode: ({ status, completed_at, timeout_exceeded: isLate }) => {
      const hasNoEnd = isLate === true || (isLate === false && typeof completed_at !== 'string');
      return status === 'halted' || hasNoEnd ? 1 : 0;
    },
  },
  async run(context, { wait, async: isAsync, ...options }) {
    const pipeline = requirePipeline(options.pipeline, context.engine.pipelines);
    refuseDeniedPipeline(context, pipeline);
    const requested = wait ?? (isDelayed(options) ? false : undefined);
    const waitMs = isAsync ? 0 : limitWait(context, toRunWaitMs(pipeline, requested));
    const start = async () => {
      const submission = toRunSubmission(context, options, waitMs > 0);
      return await showStartedRun(
        context,
        submission,
        await context.engine.startRun(submission),
        waitMs,
      );
    };
    // A caller that waits needs a slot before the run is accepted.
    return await (waitMs === 0 ? start() : withWaiterSlot(context, start));
  },
  plan(context, { pipeline: name, ...request }) {
    const pipeline = requirePipeline(name, context.engine.pipelines);
    refuseDeniedPipeline(context, pipeline);
    toDue(request);
    const { first, hash } = pipeline.graph;
    return Promise.resolve([
      `A run of ${name} (definition ${hash.slice(0, HASH_SHOWN)}) will start with step ${first}.`,
    ]);
  },
});

const HASH_SHOWN = 12;

/** Returns how long to wait for a run (default: as its pipeline is configured). */
export function toRunWaitMs({ mode, timeoutMs }: Pipeline, requested?: boolean | number): number {
  if (typeof requested === 'number') return requested;
  return (requested ?? mode === 'synchronous') ? timeoutMs : 0;
}

export function toRunSubmission(
  context: Context,
  input: RunInput,
  isAwaited: boolean,
): RunSubmission {
  return { pipeline: input.pipeline, ...toStartRequest(context, input, isAwaited) };
}

/**
 * Shows a run that was started, and waits for its end first if `waitMs` is positive. Otherwise the run
 * is only read back if it can be older than this request, or if it has ended already.
 */
export async function showStartedRun(
  context: Context,
  { pipeline }: Pick<RunSubmission, 'pipeline'>,
  started: StartedRun,
  waitMs: number,
): Promise<RunOutput> {
  const { jobId, status, duplicateOf } = started;
  const runId = duplicateOf ?? started.runId;
  if (waitMs > 0) return await readAccepted(runId, () => waitAndShow(context, started, waitMs));
  const isNew = context.subjectId === undefined && duplicateOf === undefined;
  if (isNew && !isRunOver(status))
    return { run_id: runId, job_id: jobId ?? null, pipeline, status };
  return await readAccepted(runId, async () => {
    const run = await context.engine.waitForRun(runId, 0);
    return showWithFirstJob(await coverForCaller(context, run), started);
  });
}

function showWithFirstJob(run: Run, started: StartedRun): RunOutput {
  const isDuplicate = started.duplicateOf !== undefined;
  return {
    ...showRun(run),
    job_id: firstJobOf(run, started),
    ...(isDuplicate ? { duplicate: true } : {}),
  };
}

/** Waits for the end of a run that exists, and returns the same fields as its start. */
async function waitForRunEnd(
  context: Context,
  { id, status, rootJobId }: Run,
  waitMs: number,
): Promise<RunOutput> {
  return await waitAndShow(context, { runId: id, status, jobId: rootJobId }, waitMs);
}

const endWait = waitField().default(true).describe('longest wait for the run to finish');

export const waitForRun = defineOperation({
  name: 'run.wait',
  summary: 'Wait until a run has finished, and return the same as `pipeline run`.',
  effect: 'read',
  needs: 'server',
  scope: 'runs:ro',
  input: z.strictObject({ id: runIdField, wait: endWait }),
  output: runOutput,
  errors: ['BUSY', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'LEDGER_UNCERTAIN', 'RUN_NOT_FOUND'],
  http: { method: 'GET', path: '/runs/:id/wait' },
  cli: {
    positionals: ['id'],
    flags: { wait: '--wait <duration>' },
    defaults: { wait: '5m' },
    examples: ['ductile run wait 0199a1b2-c3d4-7e5f'],
    exitCode: ({ status }) => (status === 'succeeded' ? 0 : 1),
  },
  async run(context, { id, wait }) {
    const run = await requireRun(context, id);
    const waitMs = Math.max(1, limitWait(context, toJobWaitMs(wait)));
    return await withWaiterSlot(context, () => waitForRunEnd(context, run, waitMs));
  },
});

async function waitAndShow(
  context: Context,
  started: StartedRun,
  waitMs: number,
): Promise<RunOutput> {
  const { engine } = context;
  const runId = started.duplicateOf ?? started.runId;
  const { found, isStill } = await awaitEnd(
    context,
    () => engine.ledger.runs.find(runId),
    (givenUp) => engine.waitForRun(runId, waitMs, givenUp),
  );
  const run = await coverForCaller(context, found);
  const shown = { duplicate: false, ...showWithFirstJob(run, started) };
  if (run.completedAt === null) {
    const waits = await readWaitingFor(engine.ledger, [run]);
    const unfinished = { ...shown, waiting_for: waits.get(run.id) ?? null };
    if (isStill) return { ...unfinished, timeout_exceeded: false };
    const message = describeTimeout(shown.job_id, shown.run_id);
    return { ...unfinished, timeout_exceeded: true, message };
  }
  const tree = await readTree(maskLedger(engine.ledger, context.principal), run);
  // The run has ended, so its first job is known even if its first step was not a task.
  const first = tree.tree.find((leaf) => leaf.job_id !== null)?.job_id ?? null;
  return {
    ...shown,
    job_id: shown.job_id ?? first,
    timeout_exceeded: false,
    result: parseStoredJson(run.output),
    ...tree,
  };
}

/** Hides what this caller may not read: a duplicate is the run of another caller. */
async function coverForCaller(context: Context, run: Run): Promise<Run> {
  return maskRun(run, await readVisibility(context, { ...run, runId: run.id }));
}

/**
 * Returns the job of the first step, if it is known. In a run without a parent job it is the root of
 * the lineage, even if an earlier request started the run.
 */
function firstJobOf(
  { rootJobId, parentJobId }: Run,
  { jobId, duplicateOf }: StartedRun,
): string | null {
  if (jobId === undefined) return null;
  if (parentJobId === null) return rootJobId;
  return duplicateOf === undefined ? jobId : null;
}

/** Reports a failure after the commit as uncertain, so that the caller doesn't start the run again. */
async function readAccepted<T>(runId: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (thrown) {
    const error = toDuctileError(thrown);
    if (error.code !== 'LEDGER_UNAVAILABLE') throw error;
    const message = `run ${runId} was accepted, but its status cannot be read: ${error.message}`;
    throw new DuctileError('LEDGER_UNCERTAIN', message, {
      hint: 'Run `ductile run show` when the database is back. Do not start the run again.',
      details: { run_id: runId },
      cause: thrown,
    });
  }
}
