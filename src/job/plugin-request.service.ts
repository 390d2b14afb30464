import { toTimestamp } from '../base/clock.ts';
import { isObject, type Json, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { Plugin } from '../plugin/catalog.ts';
import { encodeRequest } from '../plugin/request.ts';
import { deliveryEventIn, senderOf, toEventMetadata } from '../signal/signal.ts';
import type { ClaimedJob } from './types.ts';

export type RequestLedger = LedgerSubset<'runs.readBasePayload' | 'runs.findStepSignal'>;

/** The parts of a request that are known only when its attempt starts. */
export interface RequestStart {
  readonly plugin: Plugin;
  /** The plugin's configuration with its credentials filled in. */
  readonly config: Plugin['config'];
  readonly api: JsonObject | undefined;
  readonly traceparent: string;
  readonly deadlineMs: number;
}

/** Reads what a job's request needs from the ledger, and returns the function that encodes it. */
export async function prepareRequest(
  job: ClaimedJob,
  ledger: RequestLedger,
  bases: BasePayloads,
): Promise<(start: RequestStart) => Buffer> {
  const base = job.baseKey === null ? undefined : await bases(job.baseKey);
  const event = await findStepEvent(job, ledger);
  return ({ plugin, config, api, traceparent, deadlineMs }) => {
    const payload = parseJson(job.payload) as Json;
    return encodeRequest({
      jobId: job.id,
      command: job.command,
      instance: plugin.name,
      attempt: job.attempt,
      idempotencyKey: job.idempotencyKey,
      config,
      state: parseObject(job.state),
      context: parseObject(job.context),
      payload,
      payloadText: job.payload,
      ...(job.runId === null || job.stepId === null
        ? {}
        : {
            step: {
              runId: job.runId,
              stepId: job.stepId,
              beneath: base?.without(isObject(payload) ? Object.keys(payload) : []) ?? NO_MEMBERS,
              beneathKeys: base?.keys ?? [],
              event,
            },
          }),
      deadlineAt: toTimestamp(deadlineMs),
      traceparent,
      ...(api === undefined ? {} : { api }),
    });
  };
}

const NO_MEMBERS = Buffer.alloc(0);

/** Describes the event that caused a step as `handle` gets it, without its payload. */
async function findStepEvent(
  { command, runId, branchId, parentJobId, idempotencyKey }: ClaimedJob,
  ledger: RequestLedger,
): Promise<JsonObject | undefined> {
  if (command !== 'handle' || runId === null || branchId === null) return undefined;
  const signal = await ledger.runs.findStepSignal({ runId, branchId, parentJobId, idempotencyKey });
  if (signal === undefined) return undefined;
  const { id, type, source, occurredAt, metadata } = signal;
  const delivery = deliveryEventIn(signal);
  // A plugin's own key is in the metadata: the column has the keys of reported signals.
  const dedupeKey = signal.dedupeKey ?? parseObject(metadata)['dedupe_key'];
  return {
    type,
    ...(typeof dedupeKey === 'string' ? { dedupe_key: dedupeKey } : {}),
    source: senderOf(source),
    timestamp: occurredAt,
    event_id: id,
    ...(delivery === undefined ? {} : { metadata: toEventMetadata(delivery) }),
  };
}

function parseObject(text: string): JsonObject {
  const value: unknown = parseJson(text);
  return isObject(value) ? value : {};
}

/** The payload that the branches of a block share. It is kept as bytes: it can be large. */
export interface BasePayload {
  /** The names of its members. */
  readonly keys: readonly string[];
  /** Returns its members except those with these names, as JSON without the braces. */
  without(keys: readonly string[]): Buffer;
}

export type BasePayloads = (key: string) => Promise<BasePayload>;

/** Creates a cache: a block's base payload never changes, so many jobs of its branches share one read. */
export function makeBasePayloads(read: (key: string) => Promise<string>): BasePayloads {
  const cached = new Map<string, Promise<BasePayload>>();

  const load = async (key: string): Promise<BasePayload> => {
    try {
      return toBasePayload(await read(key));
    } catch (error) {
      cached.delete(key);
      throw error;
    }
  };

  return (key) => {
    const base = cached.get(key) ?? load(key);
    // Insert it again at the end: the entry that was used longest ago is evicted first.
    cached.delete(key);
    cached.set(key, base);
    for (const oldest of cached.keys()) {
      if (cached.size <= limits.basesMax) break;
      cached.delete(oldest);
    }
    return base;
  };
}

/** Branches of one block mostly have the same keys, so the bytes for the latest keys are cached. */
function toBasePayload(text: string): BasePayload {
  const value: unknown = parseJson(text);
  const members = isObject(value) ? value : {};
  let latest: { readonly keys: string; readonly bytes: Buffer } | undefined;
  return {
    keys: Object.keys(members),
    without(keys) {
      const wanted = JSON.stringify(keys);
      if (latest?.keys !== wanted) {
        const left = Object.entries(members).filter(([name]) => !keys.includes(name));
        const inner = JSON.stringify(Object.fromEntries(left)).slice(1, -1);
        latest = { keys: wanted, bytes: Buffer.from(inner) };
      }
      return latest.bytes;
    },
  };
}
