/** Common parts of all output formats. */
import { isObject, type Json, type JsonObject } from '../../sdk/typescript/ductile-plugin.ts';

export interface ParsedOutput {
  readonly text: string;
  readonly session: string | undefined;
  /** Failure that the agent itself reported. */
  readonly fault: string | undefined;
  readonly usage: JsonObject | undefined;
  readonly costUsd: number | undefined;
}

/** Limit for output in an unknown format. */
const RAW_CHARACTERS_MAX = 2000;
/** Session id, which is used as an argument later. */
const SESSION = /^[A-Za-z0-9][\w-]{0,127}$/;

export const nothing: ParsedOutput = {
  text: '',
  session: undefined,
  fault: undefined,
  usage: undefined,
  costUsd: undefined,
};

export function rawText(stdout: string): string {
  return stdout.trim().slice(0, RAW_CHARACTERS_MAX);
}

export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

export function toSession(value: Json | undefined): string | undefined {
  return typeof value === 'string' && SESSION.test(value) ? value : undefined;
}

/** Keeps only the counts of a usage object. */
export function toUsage(value: Json | undefined): JsonObject | undefined {
  if (!isObject(value)) return undefined;
  const counts = Object.entries(value).filter(
    ([name, count]) => /^\w{1,64}$/.test(name) && typeof count === 'number',
  );
  return counts.length === 0 ? undefined : Object.fromEntries(counts.slice(0, 32));
}
