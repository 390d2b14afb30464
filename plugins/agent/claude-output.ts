/** `claude --output-format json`: one object, or with --verbose a list that has it at its end. */
import { isObject, type Json, type JsonObject } from '../../sdk/typescript/ductile-plugin.ts';
import { nothing, parseJson, rawText, toSession, toUsage, type Parsed } from './parsed.ts';

export function parseClaude(stdout: string): Parsed {
  const value = parseJson(stdout) ?? parseLastLine(stdout);
  const result = findResult(value);
  if (result === undefined) return { ...nothing, text: rawText(stdout) };
  const text = toText(result['result']);
  const { subtype, total_cost_usd: cost } = result;
  const hasFailed =
    result['is_error'] === true || (typeof subtype === 'string' && subtype.startsWith('error'));
  return {
    text,
    session: toSession(result['session_id']),
    fault: hasFailed ? text || toText(subtype) || 'it says that it failed' : undefined,
    usage: toUsage(result['usage']),
    costUsd: typeof cost === 'number' ? cost : undefined,
  };
}

/** A warning may stand before the object. */
function parseLastLine(stdout: string): Json | undefined {
  return parseJson(stdout.trimEnd().split('\n').at(-1) ?? '');
}

function findResult(value: Json | undefined): JsonObject | undefined {
  if (isObject(value)) return value;
  if (!Array.isArray(value)) return undefined;
  const objects = value.filter(isObject);
  return objects.findLast(({ type }) => type === 'result') ?? objects.at(-1);
}

function toText(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value.trim() : JSON.stringify(value);
}
