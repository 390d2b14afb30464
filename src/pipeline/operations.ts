import * as z from 'zod';
import { formatDuration } from '../base/quantity.ts';
import { nonBlankText } from '../base/fields.ts';
import { requirePipeline } from './run/start.service.ts';
import {
  formatCondition,
  formatTemplate,
  outlineSteps,
  drawText,
  type DrawnStep,
} from './language/draw.ts';
import { drawSvg } from './language/draw-svg.ts';
import { flattenSteps } from './language/entry.ts';
import type { Pipeline } from './language/pipeline.ts';
import { defineOperation } from '../operation/define.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';
import { DuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import { valueAt } from '../config/address.ts';
import type { Finding } from '../config/findings.ts';
import { readConfig } from '../config/load.ts';
import { suggest } from '../base/text.ts';
import { listConfigFindings, loadOptions } from '../config/check.operations.ts';
import { findingsShape, showFindings } from '../insight/findings.service.ts';

export const pipelineName = nonBlankText().describe('the name of the pipeline');

const pipelineShape = z.object({
  name: z.string(),
  on: z.string().nullable().describe('the type of the events that start it'),
  from_plugin: z.string().nullable().describe('only events of this plugin start it'),
  if: z.string().nullable().describe('condition that an event must meet to start it'),
  execution_mode: z.enum(['async', 'synchronous']),
  timeout: z.string().describe('how long a synchronous caller waits for the run to finish'),
  concurrency: z.string().nullable().describe('maximum number of concurrent runs per key'),
  on_halt: z.string().nullable().describe('command that runs when a run of the pipeline halts'),
  max_fanout: z.int().describe('maximum number of branches in one block'),
  steps: z.int().describe('number of steps, without those of called pipelines'),
  definition_hash: z
    .string()
    .describe('hash of the definition; equal definitions have equal hashes'),
  place: z.string(),
});

export const listPipelines = defineOperation({
  name: 'pipeline.list',
  summary: 'List the active pipelines, with their trigger and their settings.',
  effect: 'read',
  scope: 'plugin:ro',
  input: z.strictObject(pageFields),
  output: z.object({ pipelines: z.array(pipelineShape), next_cursor: nextCursorField }),
  errors: ['INPUT_INVALID'],
  http: { method: 'GET', path: '/pipelines' },
  cli: {
    examples: ['ductile pipeline list', 'ductile pipeline --json'],
    isDefault: true,
    table: {
      rows: 'pipelines',
      columns: [
        ['PIPELINE', 'name'],
        ['ON', 'on'],
        ['FROM', 'from_plugin'],
        ['IF', 'if', 'detail'],
        ['MODE', 'execution_mode'],
        ['STEPS', 'steps'],
        ['CONCURRENCY', 'concurrency', 'detail'],
        ['ON HALT', 'on_halt'],
        ['DEFINITION', 'definition_hash', 'detail'],
        ['PLACE', 'place', 'detail'],
      ],
      empty: 'No pipelines.',
    },
  },
  run({ engine: { pipelines } }, input) {
    const { page, next } = cutPage(pipelines, ({ name }) => name, input);
    return Promise.resolve({ pipelines: page.map(showPipeline), next_cursor: next });
  },
});

interface DrawnShape {
  readonly id: string;
  readonly kind: string;
  readonly does: string;
  readonly notes: readonly string[];
  readonly arms: readonly {
    readonly label: string | null;
    readonly steps: readonly DrawnShape[];
  }[];
}

const drawnShape: z.ZodType<DrawnShape> = z.lazy(() =>
  z.object({
    id: z.string(),
    kind: z.string(),
    does: z.string().describe('the command that it uses, or its other action'),
    notes: z.array(z.string()).describe('its condition and its settings'),
    arms: z
      .array(z.object({ label: z.string().nullable(), steps: z.array(drawnShape) }))
      .describe('the lists of steps inside it'),
  }),
);

export const showPipelineOperation = defineOperation({
  name: 'pipeline.show',
  summary: 'Show a pipeline, with its trigger and all its steps.',
  effect: 'read',
  scope: 'plugin:ro',
  input: z.strictObject({ pipeline: pipelineName }),
  output: pipelineShape.omit({ steps: true }).extend({ steps: z.array(drawnShape) }),
  errors: ['INPUT_INVALID', 'PIPELINE_NOT_FOUND'],
  http: { method: 'GET', path: '/pipelines/:pipeline' },
  cli: { positionals: ['pipeline'], examples: ['ductile pipeline show nightly-report'] },
  run({ engine }, input) {
    const pipeline = requirePipeline(input.pipeline, engine.pipelines);
    const steps: DrawnStep[] = outlineSteps(pipeline.graph);
    return Promise.resolve({ ...showPipeline(pipeline), steps });
  },
});

export const graphPipeline = defineOperation({
  name: 'pipeline.graph',
  summary: 'Draw a pipeline, as text or as an SVG picture.',
  effect: 'read',
  scope: 'plugin:ro',
  input: z.strictObject({
    pipeline: pipelineName,
    format: z
      .enum(['text', 'svg'])
      .default('text')
      .describe('format of the drawing (default: text)'),
    notes: z.boolean().default(false).describe('show the settings of each step in the text format'),
  }),
  output: z.object({ pipeline: z.string(), format: z.enum(['text', 'svg']), drawing: z.string() }),
  errors: ['INPUT_INVALID', 'PIPELINE_NOT_FOUND'],
  http: { method: 'GET', path: '/pipelines/:pipeline/graph' },
  cli: {
    positionals: ['pipeline'],
    examples: [
      'ductile pipeline graph nightly-report',
      'ductile pipeline graph nightly-report --format svg > nightly-report.svg',
    ],
  },
  run({ engine }, { pipeline: name, format, notes }) {
    const pipeline = requirePipeline(name, engine.pipelines);
    const { graph } = pipeline;
    const title = titleOf(pipeline);
    const drawing = format === 'svg' ? drawSvg(graph, title) : drawText(graph, title, notes);
    return Promise.resolve({ pipeline: name, format, drawing });
  },
});

function titleOf({ name, on, fromPlugin }: Pipeline): string {
  if (on === undefined) return name;
  return `${name} on ${on}${fromPlugin === undefined ? '' : ` from ${fromPlugin}`}`;
}

function showPipeline(pipeline: Pipeline): z.output<typeof pipelineShape> {
  const { name, on, fromPlugin, when, concurrency, graph, entry } = pipeline;
  const { onHalt } = graph;
  return {
    name,
    on: on ?? null,
    from_plugin: fromPlugin ?? null,
    if: when === undefined ? null : formatCondition(when),
    execution_mode: pipeline.mode,
    timeout: formatDuration(pipeline.timeoutMs),
    concurrency:
      concurrency === undefined
        ? null
        : `${concurrency.limit} of ${formatTemplate(concurrency.key)}`,
    on_halt: onHalt === undefined ? null : `${onHalt.plugin}.${onHalt.command}`,
    max_fanout: graph.maxFanout,
    steps: flattenSteps(entry.steps).length,
    definition_hash: graph.hash,
    place: pipeline.place,
  };
}

export const checkPipeline = defineOperation({
  name: 'pipeline.check',
  summary: 'Check the pipelines in the configuration files, including inactive ones.',
  effect: 'read',
  scope: 'config:ro',
  needs: 'files',
  input: z.strictObject({
    pipeline: z
      .string()
      .min(1)
      .optional()
      .describe('only this pipeline, and those that it calls (default: all)'),
  }),
  output: findingsShape,
  errors: ['CONFIG_NOT_FOUND', 'INPUT_INVALID', 'PIPELINE_NOT_FOUND'],
  http: { absent: '`GET /system/doctor` reports the same for the whole configuration' },
  cli: {
    positionals: ['pipeline'],
    examples: ['ductile pipeline check', 'ductile pipeline check nightly-report --config .'],
    exitCode: ({ errors }) => (errors === 0 ? 0 : 1),
  },
  run(context, { pipeline }) {
    const reading = readConfig(loadOptions(context));
    const findings = listConfigFindings(reading).filter(isAboutPipelines);
    const written = valueAt(reading.document.value, ['pipelines']);
    const indexes = pipeline === undefined ? undefined : findIndexes(pipeline, written);
    const shown = findings.filter(({ key }) => {
      const [, index] = /^pipelines\[(\d+)\]/.exec(key) ?? [];
      return indexes === undefined || index === undefined || indexes.has(Number(index));
    });
    return Promise.resolve(showFindings(shown));
  },
});

/** Includes errors that prevent the check of pipelines. */
function isAboutPipelines({ category, severity, key }: Finding): boolean {
  if (category === 'pipelines' || /^pipelines\b/.test(key)) return true;
  return severity === 'error' && (category === 'content' || category === 'plugins');
}

/** Finds the indexes of a pipeline and of those that it calls. The entries can be invalid. */
function findIndexes(name: string, written: unknown): Set<number> {
  const entries: readonly unknown[] = Array.isArray(written) ? written : [];
  const names = entries.map((entry) => valueAt(entry, ['name']));
  if (!names.includes(name)) {
    const known = names.filter((candidate) => typeof candidate === 'string');
    const message = `there is no pipeline ${name} in the configuration`;
    throw new DuctileError('PIPELINE_NOT_FOUND', message, {
      hint: suggest(name, known, 'pipelines'),
    });
  }
  const found = new Set<number>();
  const visit = (called: string): void => {
    for (const [index, entry] of entries.entries()) {
      if (names[index] !== called || found.has(index)) continue;
      found.add(index);
      callsIn(entry).forEach(visit);
    }
  };
  visit(name);
  return found;
}

function callsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(callsIn);
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    key === 'call' && typeof inner === 'string' ? [inner] : callsIn(inner),
  );
}
