import type { Json } from '../base/json.ts';
import { makeValueMask, type KnownSecret, type ValueMask } from '../base/mask-values.ts';
import { parseJson } from '../base/parse-json.ts';
import type { ProcessEnd } from '../plugin/process.ts';

/** The end of a process as it may be kept: whatever it printed, without the values it was given. */
export function withoutSecrets(end: ProcessEnd, secrets: readonly KnownSecret[]): ProcessEnd {
  if (secrets.length === 0) return end;
  const mask = makeValueMask(secrets);
  const stdout = maskOutput(end.stdout, end.stdoutOverflowed, mask);
  const stderr = maskText(end.stderr, end.stderrTruncated, mask);
  return { ...end, stdout, stderr };
}

/** As JSON where it is some: there a value may be spelled in more ways than can be looked for. */
function maskOutput(output: Buffer, isCut: boolean, mask: ValueMask): Buffer {
  const text = output.toString();
  const value = isCut ? undefined : parse(text);
  if (value === undefined) return maskText(output, isCut, mask);
  const masked = mask.json(value);
  const isClean = Object.is(masked, value) && mask.text(text) === text;
  return isClean ? output : Buffer.from(JSON.stringify(masked));
}

function maskText(output: Buffer, isCut: boolean, mask: ValueMask): Buffer {
  const text = output.toString();
  const masked = isCut ? mask.cutText(text) : mask.text(text);
  return masked === text ? output : Buffer.from(masked);
}

function parse(text: string): Json | undefined {
  try {
    return parseJson(text) as Json;
  } catch {
    return undefined;
  }
}
