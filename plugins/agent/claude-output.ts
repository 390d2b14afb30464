/** Parses `claude --output-format json`: one object, or with --verbose a list that ends with it. */
import { isObject, type Json, type JsonObject } from '../../sdk/typescript/ductile-plugin.ts';
import { nothing, parseJson, rawText, toSession, toUsage, type ParsedOutput } from './parsed.ts';

export function parseClaude(stdout: string): ParsedOutput {
  const result = findResult(stdout);
  if (result === undefined) return { ...nothing, text: rawText(stdout) };
  const text = toText(result['result']);
  const { subtype, total_cost_usd: cost } = result;
  return {
    text,
    session: toSession(result['session_id']),
    fault: hasFailed(result)
      ? text || toMessage(result) || toText(subtype) || 'it says that it failed'
      : undefined,
    usage: toUsage(result['usage']),
    costUsd: typeof cost === 'number' ? cost : undefined,
  };
}

/** Warnings may come before and after the result. A result without a type must be the only object or the last. */
function findResult(stdout: string): JsonObject | undefined {
  const whole = parseJson(stdout);
  const values =
    whole === undefined ? stdout.trimEnd().split('\n').map(parseObjects) : [toObjects(whole)];
  const objects = values.flat();
  return (
    objects.findLast(({ type }) => type === 'result') ??
    objects.findLast(({ type }) => type === 'error') ??
    values.at(-1)?.at(-1)
  );
}

function parseObjects(line: string): JsonObject[] {
  return /^\s*[[{]/.test(line) ? toObjects(parseJson(line)) : [];
}

function toObjects(value: Json | undefined): JsonObject[] {
  return (Array.isArray(value) ? value : [value]).filter(isObject);
}

function hasFailed({ type, is_error: isError, subtype }: JsonObject): boolean {
  const isFault = typeof subtype === 'string' && subtype.startsWith('error');
  return type === 'error' || isError === true || isFault;
}

function toMessage({ message, error }: JsonObject): string {
  return toText(message ?? (isObject(error) ? error['message'] : error));
}

function toText(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value.trim() : JSON.stringify(value);
}
