import { DuctileError, messageOf } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { toKeptText } from '../base/kept-text.ts';
import type { ContextDraft, Ledger } from '../ledger/ledger.ts';
import type { RunDraft, RunNews } from '../ledger/runs.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import { suggest } from '../config/nearest.ts';
import type { Catalog } from '../plugin/catalog.ts';
import { checkPayload } from '../plugin/payload.ts';
import type { RunSubmission, StartedRun } from './engine.ts';
import { toStart, type Start } from './starts.ts';

export interface RunDoorOptions {
  readonly ledger: Pick<Ledger, 'startRuns'>;
  readonly pipelines: () => readonly Pipeline[];
  readonly catalog: () => Catalog;
  readonly onNews: (news: RunNews) => void;
}

/** Where runs come in that somebody asks for by name. */
export interface RunDoor {
  start(submission: RunSubmission): Promise<StartedRun>;
}

interface Waiting {
  readonly run: RunDraft;
  readonly context: ContextDraft | undefined;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** As with jobs, what comes in one turn of the event loop is one batch and one commit. */
export function makeRunDoor({ ledger, pipelines, catalog, onNews }: RunDoorOptions): RunDoor {
  let waiting: Waiting[] = [];

  const enqueue = async (batch: readonly Waiting[]): Promise<void> => {
    try {
      const news = await ledger.startRuns({
        jobs: [],
        runs: batch.map(({ run }) => run),
        contexts: batch.flatMap(({ context }) => (context === undefined ? [] : [context])),
      });
      for (const { resolve } of batch) resolve();
      onNews(news);
    } catch (error) {
      if (batch.length > 1 && !(error instanceof DuctileError)) {
        for (const one of batch) await enqueue([one]);
      } else for (const { reject } of batch) reject(error);
    }
  };

  const flush = (): void => {
    const batch = waiting;
    waiting = [];
    void enqueue(batch);
  };

  return {
    async start(submission) {
      const pipeline = findPipeline(submission.pipeline, pipelines());
      const draft = toDraft(submission, pipeline);
      await checkFirst(pipeline, submission, catalog());
      await new Promise<void>((resolve, reject) => {
        if (waiting.length === 0) setImmediate(flush);
        waiting.push({ ...draft, resolve, reject });
      });
      const { id: runId, firstJobId } = draft.run;
      return { runId, jobId: firstTask(pipeline) === undefined ? undefined : firstJobId };
    },
  };
}

export function findPipeline(name: string, pipelines: readonly Pipeline[]): Pipeline {
  const found = pipelines.find((pipeline) => pipeline.name === name);
  if (found !== undefined) return found;
  const known = pipelines.map((pipeline) => pipeline.name);
  throw new DuctileError('PIPELINE_NOT_FOUND', `there is no pipeline ${name}`, {
    hint: suggest(name, known, 'pipelines'),
  });
}

function toDraft(
  { id, payload, context, submittedBy, actor }: RunSubmission,
  pipeline: Pipeline,
): { run: RunDraft; context: ContextDraft | undefined } {
  const baggage: ContextDraft | undefined =
    context === undefined
      ? undefined
      : { id: makeId(), accumulated: toKeptText(context, 'context') };
  return {
    context: baggage,
    run: {
      id: id ?? makeId(),
      ...startOf(pipeline, { payload, context: context ?? {} }),
      payload: toKeptText(payload, 'payload'),
      submittedBy,
      actor,
      firstJobId: makeId(),
      ...(baggage === undefined ? {} : { eventContextId: baggage.id }),
    },
  };
}

function startOf(pipeline: Pipeline, scope: Parameters<typeof toStart>[1]): Start {
  try {
    return toStart(pipeline, scope);
  } catch (thrown) {
    const message = `the concurrency key of ${pipeline.name}: ${messageOf(thrown)}`;
    throw new DuctileError('INPUT_INVALID', message, { place: 'payload', cause: thrown });
  }
}

/** Whoever asks is told at once that the first step could not take the payload as it is. */
async function checkFirst(
  pipeline: Pipeline,
  { payload }: RunSubmission,
  catalog: Catalog,
): Promise<void> {
  const first = firstTask(pipeline);
  if (first === undefined || first.with !== undefined) return;
  const plugin = catalog.plugins.get(first.plugin);
  if (plugin?.manifest.commands[first.command]?.inputSchema === undefined) return;
  await checkPayload(plugin, first.command, payload);
}

function firstTask({ graph }: Pipeline) {
  const first = graph.nodes[graph.first];
  return first?.kind === 'task' && first.when === undefined ? first : undefined;
}
