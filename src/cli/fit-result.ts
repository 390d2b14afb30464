/** Results for `--json` that fit: whole when they are small, cut and marked when they are not. */
import { limits } from '../base/limits.ts';
import { toVisibleText } from '../base/text.ts';
import type { JsonOutput } from '../operation/define.ts';
import { compactResult } from '../operation/result/compact-result.ts';
import { groupCuts } from '../operation/result/describe-cuts.ts';
import { digest, type Cut } from '../operation/result/digest.ts';
import { foldResult } from '../operation/result/fold-result.ts';
import { pickFields, readFieldNames } from '../operation/result/pick-fields.ts';
import type { ResultShape } from '../operation/result/result-shape.ts';

export interface FitOptions {
  readonly shape: ResultShape;
  /** Print everything, as the API returns it. */
  readonly isFull: boolean;
  /** The rows were asked for by their number, so only long texts in them are cut. */
  readonly keepRows: boolean;
  /** `--fields`, as it was given. */
  readonly fields?: string | undefined;
  /** Commands that print what is cut here. */
  readonly more: readonly string[];
  /** Cuts that were made before, by asking for fewer rows. */
  readonly before?: readonly Readonly<Record<string, unknown>>[];
}

export interface FittedResult {
  readonly value: JsonOutput;
  /** Bytes of the whole result, when not all of it is in the value. */
  readonly wholeBytes: number | undefined;
}

const NO_SHAPE: ResultShape = { fields: [], data: [] };

/** What fits of a result of a command that isn't an operation. */
export const plainFit = { shape: NO_SHAPE, keepRows: false, more: [] };

/** For a cut: what the note about it may take, and how much less is tried when it does not fit. */
const NOTE_BYTES = 700;
const NOTE_SHARE = 0.12;
const LESS = 0.85;
const ROOM_BYTES_MIN = 64;

export function fitResult(output: JsonOutput, options: FitOptions): FittedResult {
  const { shape, isFull, before = [] } = options;
  const picked = pickGiven(output, options);
  if (isFull) return { value: picked, wholeBytes: undefined };
  const hasNames = options.fields !== undefined;
  const small = hasNames ? picked : compactResult(picked, new Set(shape.data));
  const wholeBytes = countBytes(small);
  if (before.length === 0 && wholeBytes <= limits.resultBytes) {
    return { value: small, wholeBytes: undefined };
  }
  const { value: folded, cuts: folds } = foldResult(small, hasNames ? {} : shape);
  for (let room = limits.resultBytes - NOTE_BYTES; ; room = Math.floor(room * LESS)) {
    const { value, cuts } = digest(folded, room, { keepRows: options.keepRows });
    const note = describe([...folds, ...cuts], { ...options, wholeBytes, value: folded });
    const noted = { ...(value as JsonOutput), ...note };
    const isLast = options.keepRows || room < ROOM_BYTES_MIN;
    if (isLast || countBytes(noted) <= limits.resultBytes) return { value: noted, wholeBytes };
  }
}

/** Names that the result can't have are refused before anything is asked. */
export function pickGiven(output: JsonOutput, { fields, shape }: FitOptions): JsonOutput {
  return fields === undefined ? output : pickFields(output, readFieldNames(fields), shape);
}

interface Described extends FitOptions {
  readonly wholeBytes: number;
  readonly value: unknown;
}

function describe(cuts: readonly Cut[], { value, wholeBytes, more, before = [] }: Described) {
  if (cuts.length + before.length === 0) return {};
  const room = limits.resultBytes * NOTE_SHARE;
  const { listed, left } = groupCuts(cuts, value, room);
  return {
    cut: {
      whole_bytes: wholeBytes,
      parts: [...before, ...listed],
      ...(left === 0 ? {} : { more_parts: left }),
      commands: more,
    },
  };
}

/** As it is printed: signs that nobody sees are escaped. */
export function countBytes(value: unknown): number {
  return Buffer.byteLength(toVisibleText(JSON.stringify(value)));
}
