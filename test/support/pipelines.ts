/** Compiles pipelines, and assumes that their plugins exist. */
import { compilePipeline } from '../../src/pipeline/language/compile.ts';
import { pipelineSchema } from '../../src/pipeline/language/entry-schema.ts';
import { toPipelineEntry } from '../../src/pipeline/language/entry.ts';
import type { Pipeline } from '../../src/pipeline/language/pipeline.ts';

export interface PipelineText {
  readonly name: string;
  readonly steps: readonly object[];
  readonly [key: string]: unknown;
}

export function makePipelines(...written: readonly PipelineText[]): Pipeline[] {
  const entries = written.map((one) =>
    toPipelineEntry(pipelineSchema.parse(one), (path) => ({
      place: 'pipelines.yaml:1:1',
      key: ['pipelines', ...path].join('.'),
    })),
  );
  const library = {
    pipelines: new Map(entries.map((entry) => [entry.name, entry])),
    suggest: () => '',
    resolve(uses: string) {
      const [plugin = '', command = 'handle'] = uses.split('.');
      return { plugin, command, maxAttempts: 4 };
    },
  };
  return entries.map((entry) => {
    const { graph, faults } = compilePipeline(entry, library);
    if (graph === undefined) throw new Error(faults.map(({ message }) => message).join('; '));
    return { ...entry, graph, place: 'pipelines.yaml:1:1', entry };
  });
}

export function makePipeline(...written: readonly PipelineText[]): Pipeline {
  const [first] = makePipelines(...written);
  if (first === undefined) throw new Error('no pipeline was written');
  return first;
}
