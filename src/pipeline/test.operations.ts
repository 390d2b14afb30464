import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { parseStoredJson, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { requirePipeline } from './run/start.service.ts';
import type { Graph, Node } from './language/graph.ts';
import { haltReasons } from './run/halt.ts';
import { stepStatuses, type Run } from './run/run.ts';
import { simulateRun, type StepAnswerer, type Simulation } from './language/simulate.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { makeAnswerer, readAnswers, readRecordedAnswers } from './test-answers.service.ts';
import { pipelineName } from './operations.ts';
import { requireRun } from './run/run.operations.ts';
import { readVisibility } from '../operation/visibility.ts';

const branch = z.string().describe('indexes from the root down, such as 0.2');
const does = z.string().nullable().describe('the command that it uses, as plugin.command');
const why = z.string().describe('why the branch reached the step');

const testInput = z.strictObject({
  pipeline: pipelineName,
  payload: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('initial payload, a JSON object (default: the payload of `run`, or empty)'),
  context: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('initial baggage, a JSON object (default: empty)'),
  responses: z
    .record(z.string(), z.unknown())
    .default({})
    .describe('response for each step or plugin.command, or a list of responses in order'),
  run: z
    .string()
    .min(1)
    .optional()
    .describe('use the payload and the recorded responses of this run'),
  assume_ok: z
    .boolean()
    .default(false)
    .describe('assume success, approval or a signal in time for steps without a response'),
});

export const testPipeline = defineOperation({
  name: 'pipeline.test',
  summary: 'Simulate a pipeline with given or recorded responses. No plugin runs.',
  effect: 'read',
  scope: (_context, { run }) => (run === undefined ? 'plugin:ro' : 'runs:ro'),
  offeredWith: ['plugin:ro', 'runs:ro'],
  input: testInput,
  output: z.object({
    pipeline: z.string(),
    definition_hash: z.string(),
    status: z
      .enum(['succeeded', 'halted', 'open'])
      .describe('`open`: a response is missing, or the simulation reached its size limit'),
    result: z.unknown().describe('output of the last step'),
    steps: z.array(
      z.object({
        step: z.string(),
        branch,
        kind: z.string(),
        does,
        status: z.enum(stepStatuses),
        why,
        input: z.unknown().describe('the complete input of the plugin'),
        output: z.unknown().describe("the branch's own part of the payload after the step"),
        note: z.string().nullable(),
        error: z.string().nullable(),
      }),
    ),
    next: z
      .array(
        z.object({
          step: z.string(),
          branch,
          kind: z.string(),
          does,
          why,
          input: z.unknown().describe('the complete input of the plugin'),
          message: z.string().nullable().describe('the question of an approval'),
        }),
      )
      .describe('the steps that would run next'),
    halts: z.array(
      z.object({ step: z.string(), branch, reason: z.enum(haltReasons), message: z.string() }),
    ),
    on_halt: z.string().nullable().describe('command that would run because the run halted'),
    complete: z.boolean().describe('false if the simulation stopped at its size limit'),
  }),
  errors: [
    'FORBIDDEN',
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'PIPELINE_NOT_FOUND',
    'RUN_NOT_FOUND',
  ],
  http: { method: 'POST', path: '/pipelines/:pipeline/test' },
  cli: {
    positionals: ['pipeline'],
    examples: [
      'ductile pipeline test photos --payload \'{"album":"2026"}\'',
      'ductile pipeline test photos --payload-file album.json --responses-file answers.json',
      'ductile pipeline test photos --run 0199a1b2',
    ],
    exitCode: ({ status }) => (status === 'halted' ? 1 : 0),
  },
  async run(context, input) {
    const { graph } = requirePipeline(input.pipeline, context.engine.pipelines);
    const recorded =
      input.run === undefined ? undefined : await requireReadableRun(context, input.run);
    const simulation = simulateRun({
      graph,
      payload: (input.payload ?? parseStoredJson(recorded?.payload ?? '{}')) as JsonObject,
      context: (input.context ?? {}) as JsonObject,
      answer: await createAnswerer(context, graph, input, recorded),
      stepsMax: limits.simulationStepsMax,
      charsMax: limits.simulationCharsMax,
    });
    return { pipeline: input.pipeline, ...showSimulation(graph, simulation) };
  },
});

async function requireReadableRun(context: Context, id: string): Promise<Run> {
  const run = await requireRun(context, id);
  // A test shows the recorded data, so the caller must be allowed to read all of it.
  if ((await readVisibility(context, { ...run, runId: run.id })) === 'exact') return run;
  const message = `only administrators and ${run.actor} may read the data of run ${run.id}`;
  throw new DuctileError('FORBIDDEN', message, {
    place: 'run',
    hint: 'Use the token of an administrator, or pass payload and responses instead of run.',
  });
}

/** Prefers given answers to recorded ones. A wait for a time ends by itself. */
async function createAnswerer(
  { engine: { ledger } }: Context,
  graph: Graph,
  { responses, assume_ok: isAssumed }: z.output<typeof testInput>,
  run: Run | undefined,
): Promise<StepAnswerer> {
  const at = await ledger.now();
  const given = makeAnswerer(readAnswers(graph, responses), at);
  const recorded = run === undefined ? undefined : await readRecordedAnswers(ledger, run);
  return (question) => {
    const { node } = question;
    const answer = given(question) ?? recorded?.(question);
    if (answer !== undefined) return answer;
    if (node.kind === 'wait' && node.signal === undefined) return { kind: 'due', at };
    if (!isAssumed) return undefined;
    if (node.kind === 'task') return { kind: 'done', events: [], result: 'ok' };
    if (node.kind === 'wait') return { kind: 'signalled', data: {}, signalId: 'test' };
    return { kind: 'decided', approved: true, by: 'test', why: null, at };
  };
}

function showSimulation(graph: Graph, simulation: Simulation) {
  const { status, output, steps, next, halts, isCut } = simulation;
  const { onHalt } = graph;
  return {
    definition_hash: graph.hash,
    status,
    result: parseStoredJson(output ?? null),
    steps: steps.map((step) => ({
      step: step.node,
      branch: step.branch,
      kind: step.kind,
      does: commandOf(graph.nodes[step.node]),
      status: step.status,
      why: step.why,
      input: step.input ?? null,
      output: parseStoredJson(step.output),
      note: step.note,
      error: step.error,
    })),
    next: next.map(({ node, ...rest }) => ({
      step: node,
      does: commandOf(graph.nodes[node]),
      ...rest,
    })),
    halts: halts.map(({ node, ...rest }) => ({ step: node, ...rest })),
    on_halt: status === 'halted' && onHalt !== undefined ? nameOf(onHalt) : null,
    complete: !isCut,
  };
}

function commandOf(node: Node | undefined): string | null {
  return node?.kind === 'task' ? nameOf(node) : null;
}

function nameOf({
  plugin,
  command,
}: {
  readonly plugin: string;
  readonly command: string;
}): string {
  return `${plugin}.${command}`;
}
