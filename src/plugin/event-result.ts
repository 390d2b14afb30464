import { isObject, type Json } from '../base/json.ts';
import { limits } from '../base/limits.ts';

/**
 * Gives each event's payload the attempt's result as `result`, as the original project does. A payload
 * keeps a `result` of its own, and one that would become too large stays as it is.
 */
export function addResult<T extends { readonly payload: Json }>(
  events: readonly T[],
  result: string,
): readonly T[] {
  const bytes = Buffer.byteLength(JSON.stringify(result));
  if (bytes * events.length > limits.resultCopiesBytesMax) return events;
  return events.map((event) => {
    const { payload } = event;
    if (!isObject(payload) || Object.hasOwn(payload, 'result')) return event;
    const added = { ...payload, result };
    const isTooLarge = Buffer.byteLength(JSON.stringify(added)) > limits.payloadBytesMax;
    return isTooLarge ? event : { ...event, payload: added };
  });
}
