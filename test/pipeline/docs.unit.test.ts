/** The examples on the page about pipelines compile. The page about runs lists all halt reasons. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { isObject } from '../../src/base/json.ts';
import { compilePipeline } from '../../src/pipeline/language/compile.ts';
import { toPipelineEntry } from '../../src/pipeline/language/entry.ts';
import { pipelineSchema } from '../../src/pipeline/language/entry-schema.ts';
import { haltReasons } from '../../src/pipeline/run/halt.ts';

function read(page: string): string {
  return readFileSync(resolve(import.meta.dirname, '../../docs', page), 'utf8');
}

const examples = [...read('concepts/pipelines.md').matchAll(/```yaml\n([^`]+)```/g)].map(
  ([, text = '']) => text,
);

test.each(haltReasons)('%s is documented', (reason) => {
  expect(read('guides/runs.md')).toContain(`\`${reason}\``);
});

test('the page has examples', () => {
  expect(examples.length).toBeGreaterThan(4);
});

test.each(examples)('%s', (text) => {
  const document: unknown = parse(text);
  const pipelines = isObject(document) ? document['pipelines'] : undefined;
  if (!Array.isArray(pipelines)) throw new Error('it has no pipelines');
  for (const written of pipelines) {
    const entry = toPipelineEntry(pipelineSchema.parse(written), () => ({ place: '', key: '' }));
    const library = {
      pipelines: new Map([[entry.name, entry]]),
      suggest: () => '',
      resolve: (uses: string) => ({ plugin: uses, command: 'handle', maxAttempts: 1 }),
    };
    expect(compilePipeline(entry, library)).toMatchObject({
      faults: [],
      graph: { name: entry.name },
    });
  }
});
