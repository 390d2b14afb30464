import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { toTimestamp } from '../../src/base/clock.ts';
import { DuctileError, messageOf } from '../../src/base/errors.ts';
import { makeId } from '../../src/base/ids.ts';
import { isObject, type JsonObject } from '../../src/base/json.ts';
import { parseJson } from '../../src/base/parse-json.ts';
import type { Manifest } from '../../src/plugin/manifest.ts';
import { encodeRequest } from '../../src/plugin/protocol.ts';

/** Input of a tested command. */
export interface Example {
  readonly config: JsonObject;
  readonly state: JsonObject;
  readonly payload: JsonObject;
}

/** Values from the command line. */
export interface ExampleOverrides {
  readonly command?: string | undefined;
  readonly payload?: JsonObject | undefined;
  readonly settings?: JsonObject | undefined;
}

/**
 * Reads requests from `examples/<command>.json` in the plugin's directory. The overrides take
 * precedence.
 */
export function readExamples(
  directory: string,
  manifest: Manifest,
  overrides: ExampleOverrides,
): (command: string) => Example {
  const recorded = new Map(
    Object.keys(manifest.commands).map((name) => [name, readRecorded(directory, name)]),
  );
  const anyConfig = [...recorded.values()]
    .map((request) => objectOf(request?.['config']))
    .find((config) => config !== undefined);
  return (command) => {
    const request = recorded.get(command) ?? {};
    const payload = command === overrides.command ? overrides.payload : undefined;
    return {
      config: overrides.settings ?? objectOf(request['config']) ?? anyConfig ?? {},
      state: objectOf(request['state']) ?? {},
      payload: payload ?? objectOf(request['payload']) ?? {},
    };
  };
}

/** Encodes a request as the service does. A later version of Ductile may send extra members. */
export function encodeTestRequest(
  { name }: Manifest,
  command: string,
  { config, state, payload }: Example,
  timing: { readonly timeoutMs: number; readonly extraMembers?: JsonObject },
): Buffer {
  const id = makeId();
  const encoded = encodeRequest({
    jobId: id,
    command,
    instance: name,
    attempt: 1,
    idempotencyKey: id,
    config,
    state,
    context: {},
    payload,
    deadlineAt: toTimestamp(Date.now() + timing.timeoutMs),
  });
  if (timing.extraMembers === undefined) return encoded;
  const request = { ...timing.extraMembers, ...(parseJson(encoded.toString()) as JsonObject) };
  return Buffer.from(`${JSON.stringify(request)}\n`);
}

function readRecorded(directory: string, command: string): JsonObject | undefined {
  const path = join(directory, 'examples', `${command}.json`);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
  try {
    const value: unknown = parseJson(text);
    if (isObject(value)) return value;
    throw new SyntaxError('it is not an object');
  } catch (thrown) {
    throw new DuctileError('INPUT_INVALID', `${path} isn't a request: ${messageOf(thrown)}`, {
      place: path,
    });
  }
}

function objectOf(value: unknown): JsonObject | undefined {
  return isObject(value) ? value : undefined;
}
