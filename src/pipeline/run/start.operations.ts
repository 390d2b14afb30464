import * as z from 'zod';
import { DuctileError, toDuctileError } from '../../base/errors.ts';
import { nonBlankText } from '../../base/fields.ts';
import { parseStoredJson } from '../../base/json.ts';
import { findPipeline, type RunSubmission, type StartedRun } from './start.service.ts';
import type { Pipeline } from '../language/pipeline.ts';
import { isRunOver, type Run } from './run.ts';
import type { Context } from '../../operation/context.ts';
import { refuseDeniedSteps } from '../../access/denied-commands.operations.ts';
import { defineOperation } from '../../operation/define.ts';
import {
  toDue,
  isDelayed,
  startFields,
  toStartRequest,
  limitWait,
  waitField,
  awaitEnd,
  withWaiterSlot,
} from '../../job/start-options.operations.ts';
import { unfinishedFields, readWaitingFor, waitingForShape } from './waits.service.ts';
import { runShape, showRun, stepShape, readParts } from './run.service.ts';
import { readSight, coverRun, veilLedger } from '../../access/visibility.operations.ts';
import { limits } from '../../base/limits.ts';
import type { Attempt } from '../../job/attempt.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { showSteps } from './run.operations.ts';

/** A job among others of one answer. */
export const leafShape = z.object({
  job_id: z.string().nullable(),
  plugin: z.string().nullable().describe('null where no plugin was asked'),
  command: z.string().nullable(),
  status: z.string(),
  result: z.unknown().describe('what the plugin answered; where none was asked, the output'),
});

const treeShape = stepShape.extend({
  ...leafShape.omit({ status: true }).shape,
  output: z.unknown().describe('what its branch had of its own after it'),
});

/** The steps of a run in order, each with what its plugin answered, as far as there is room. */
async function readTree(
  ledger: Ledger,
  run: Run,
): Promise<{ tree: z.output<typeof treeShape>[]; complete: boolean }> {
  const { steps, branches, complete } = await readParts(ledger, run);
  const attempts = await readLast(
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

/** A plugin may have answered with megabytes, so jobs are read a few at a time. */
const JOBS_AT_ONCE = 50;

async function readLast(
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

/** Where to look for what had not ended in time. */
export function describeTimeout(jobId: string | null, runId?: string): string {
  const places = [
    ...(jobId === null ? [] : [`/job/${jobId}`]),
    ...(runId === undefined ? [] : [`/runs/${runId}`]),
  ];
  return `Pipeline still running after timeout. Check ${places.join(' or ')}`;
}

const runInput = z.strictObject({
  pipeline: nonBlankText().describe('the name of the pipeline'),
  payload: z.record(z.string(), z.unknown()).default({}).describe('a JSON object'),
  async: z.boolean().default(false).describe('answer at once, whatever is said about waiting'),
  wait: waitField()
    .optional()
    .describe('how long to wait for the end of the run (of a synchronous one: its timeout)'),
  ...startFields,
});

export const runOutput = runShape.partial().extend({
  ...runShape.pick({ run_id: true, pipeline: true, status: true }).shape,
  job_id: z
    .string()
    .nullable()
    .describe('the job of its first step; null while there is none, then `run_id` names it'),
  duplicate: z
    .boolean()
    .optional()
    .describe('another run has the dedupe key, and this is that one; nothing was started'),
  timeout_exceeded: z.boolean().optional().describe('it had not ended when the wait was over'),
  waiting_for: waitingForShape.optional(),
  ...unfinishedFields,
  result: z.unknown().optional().describe('what its last step gave'),
  tree: z.array(treeShape).optional().describe('every step that was taken, in order'),
  complete: z.boolean().optional().describe('false when there was more than can be shown'),
});

type RunInput = Omit<z.output<typeof runInput>, 'wait' | 'async'>;
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
    // An end that was waited for and did not come is bad news.
    exitCode: ({ status, completed_at, timeout_exceeded: isLate }) => {
      const hasNoEnd = isLate === true || (isLate === false && typeof completed_at !== 'string');
      return status === 'halted' || hasNoEnd ? 1 : 0;
    },
  },
  async run(context, { wait, async: atOnce, ...wanted }) {
    const pipeline = findPipeline(wanted.pipeline, context.engine.pipelines);
    refuseDeniedSteps(context, pipeline);
    const asked = wait ?? (isDelayed(wanted) ? false : undefined);
    const waitMs = atOnce ? 0 : limitWait(context, runWaitOf(pipeline, asked));
    const begin = async () => {
      const submission = runSubmissionOf(context, wanted, waitMs > 0);
      return await showStartedRun(
        context,
        submission,
        await context.engine.startRun(submission),
        waitMs,
      );
    };
    // Who waits is admitted before anything is accepted.
    return await (waitMs === 0 ? begin() : withWaiterSlot(context, begin));
  },
  plan(context, { pipeline: name, ...wish }) {
    const pipeline = findPipeline(name, context.engine.pipelines);
    refuseDeniedSteps(context, pipeline);
    toDue(wish);
    const { first, hash } = pipeline.graph;
    return Promise.resolve([
      `A run of ${name} (definition ${hash.slice(0, HASH_SHOWN)}) would begin with ${first}.`,
    ]);
  },
});

const HASH_SHOWN = 12;

/** Who says nothing about waiting gets what the pipeline says. */
export function runWaitOf({ mode, timeoutMs }: Pipeline, asked?: boolean | number): number {
  if (typeof asked === 'number') return asked;
  const isWanted = asked ?? mode === 'synchronous';
  return isWanted ? timeoutMs : 0;
}

export function runSubmissionOf(
  context: Context,
  wanted: RunInput,
  isAwaited: boolean,
): RunSubmission {
  return { pipeline: wanted.pipeline, ...toStartRequest(context, wanted, isAwaited) };
}

/**
 * What became of a run that was asked for. Without waiting nothing is read back, unless the same may
 * have been asked for before, or all is over already.
 */
export async function showStartedRun(
  context: Context,
  { pipeline }: Pick<RunSubmission, 'pipeline'>,
  started: StartedRun,
  waitMs: number,
): Promise<RunOutput> {
  const { jobId, status, duplicateOf } = started;
  const runId = duplicateOf ?? started.runId;
  if (waitMs > 0) return await told(runId, () => answer(context, started, waitMs));
  const isNew = context.subjectId === undefined && duplicateOf === undefined;
  if (isNew && !isRunOver(status))
    return { run_id: runId, job_id: jobId ?? null, pipeline, status };
  return await told(runId, async () => {
    const run = await context.engine.waitForRun(runId, 0);
    return show(await coverFor(context, run), started);
  });
}

function show(run: Run, started: StartedRun): RunOutput {
  const isDuplicate = started.duplicateOf !== undefined;
  return {
    ...showRun(run),
    job_id: firstJobOf(run, started),
    ...(isDuplicate ? { duplicate: true } : {}),
  };
}

/** Waits for the end of a run that exists, and returns what its start would have returned. */
export async function waitForRunEnd(
  context: Context,
  { id, status, rootJobId }: Run,
  waitMs: number,
): Promise<RunOutput> {
  return await answer(context, { runId: id, status, jobId: rootJobId }, waitMs);
}

async function answer(context: Context, started: StartedRun, waitMs: number): Promise<RunOutput> {
  const { engine } = context;
  const runId = started.duplicateOf ?? started.runId;
  const { found, isStill } = await awaitEnd(
    context,
    () => engine.ledger.runs.find(runId),
    (givenUp) => engine.waitForRun(runId, waitMs, givenUp),
  );
  const run = await coverFor(context, found);
  const shown = { duplicate: false, ...show(run, started) };
  if (!isRunOver(run.status)) {
    const waits = await readWaitingFor(engine.ledger, [run]);
    const unfinished = { ...shown, waiting_for: waits.get(run.id) ?? null };
    if (isStill) return { ...unfinished, timeout_exceeded: false };
    const message = describeTimeout(shown.job_id, shown.run_id);
    return { ...unfinished, timeout_exceeded: true, message };
  }
  const tree = await readTree(veilLedger(engine.ledger, context.principal), run);
  // A run that begins with several jobs is over, so the first of them is known.
  const first = tree.tree.find((leaf) => leaf.job_id !== null)?.job_id ?? null;
  return {
    ...shown,
    job_id: shown.job_id ?? first,
    timeout_exceeded: false,
    result: parseStoredJson(run.output),
    ...tree,
  };
}

/** A duplicate is another caller's run, so it is shown as far as this caller may read it. */
async function coverFor(context: Context, run: Run): Promise<Run> {
  return coverRun(run, await readSight(context, { ...run, runId: run.id }));
}

/** A run that was begun by an earlier request has the job of then, if it began a lineage. */
function firstJobOf(
  { rootJobId, parentJobId }: Run,
  { jobId, duplicateOf }: StartedRun,
): string | null {
  if (jobId === undefined) return null;
  if (parentJobId === null) return rootJobId;
  return duplicateOf === undefined ? jobId : null;
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
