/** What whoever waited for the end of a run is told of its steps. */
import * as z from 'zod';
import { parseStoredJson } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import type { Attempt } from '../../job/attempt.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Run } from './run.ts';
import { showSteps } from './run.operations.ts';
import { readParts } from './parts.service.ts';
import { stepShape } from './shapes.service.ts';

/** A job among others of one answer. */
export const leafShape = z.object({
  job_id: z.string().nullable(),
  plugin: z.string().nullable().describe('null where no plugin was asked'),
  command: z.string().nullable(),
  status: z.string(),
  result: z.unknown().describe('what the plugin answered; where none was asked, the output'),
});

export const treeShape = stepShape.extend({
  ...leafShape.omit({ status: true }).shape,
  output: z.unknown().describe('what its branch had of its own after it'),
});

/** The steps of a run in order, each with what its plugin answered, as far as there is room. */
export async function readTree(
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
export function tellLate(jobId: string | null, runId?: string): string {
  const places = [
    ...(jobId === null ? [] : [`/job/${jobId}`]),
    ...(runId === undefined ? [] : [`/runs/${runId}`]),
  ];
  return `Pipeline still running after timeout. Check ${places.join(' or ')}`;
}
