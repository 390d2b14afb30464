import type { JsonObject } from '../base/json.ts';
import type { JsonOutput, Operation } from '../operation/define.ts';
import { describeResult } from '../operation/result/result-shape.ts';
import { tellShown, type Said, type Telling, type ToolAnswer } from './tool-result.ts';

export interface AskedPage {
  readonly operation: Operation;
  readonly input: JsonObject;
  /** The result, which may be too large. */
  readonly page: JsonOutput;
  readonly run: (input: JsonObject) => Promise<JsonOutput>;
}

/** Fewer rows can need more room for what is told of each, so it may take more than one attempt. */
const FETCHES_MAX = 3;

/**
 * Tells a result. A page of a list that is too large is fetched again with as many rows as fit, so that
 * its cursor continues after the last row that is shown. A number of rows that the caller gave is kept.
 */
export async function tellPage(
  telling: Telling,
  { operation, input, page, run }: AskedPage,
  said: Pick<Said, 'beside' | 'shape'>,
): Promise<ToolAnswer> {
  const whole = { value: page, isSecret: false, ...said };
  let { answer, shown } = tellShown(telling, whole);
  const { rows } = describeResult(operation);
  const { shape: asked } = operation.input;
  const isPaged = 'limit' in asked && ('cursor' in asked || 'after' in asked);
  if (rows === undefined || !isPaged || input['limit'] !== undefined) return answer;
  const total = countRows(page, rows.field);
  const path = [Object.keys(page).indexOf(rows.field)];
  let fetched = total;
  for (let fetches = 0; fetches < FETCHES_MAX; fetches += 1) {
    const fits = countRows(shown, rows.field);
    if (fits === 0 || fits >= fetched) break;
    const value = await run({ ...input, limit: fits });
    fetched = countRows(value, rows.field);
    const cut = { path, kind: 'page', total, shown: fetched } as const;
    ({ answer, shown } = tellShown(telling, { ...whole, less: { value, cut } }));
  }
  return answer;
}

function countRows(output: unknown, field: string): number {
  const rows = (output as JsonOutput)[field];
  return Array.isArray(rows) ? rows.length : 0;
}
