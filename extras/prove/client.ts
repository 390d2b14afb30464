import { setTimeout as sleep } from 'node:timers/promises';
import { DuctileError } from '../../src/base/errors.ts';
import { makeToken } from '../../src/base/ids.ts';
import { HttpCaller } from '../../src/cli/callers.ts';
import { findSocket, readControlKey, describeSocketOwner } from '../../src/http/control-socket.ts';
import type { TestUnit } from './test-plan.ts';

/** Request that the service accepted. */
export interface AcceptedRequest {
  /** Name of the unit that it starts. */
  readonly unit: string;
  /** Id of the job or run. */
  readonly id: string;
}

const RETRY_MS = 50;
/** After these errors the outcome is unknown; a retry with the same key is safe. */
const temporaryErrors: readonly string[] = [
  'SERVER_UNREACHABLE',
  'SERVER_FOREIGN',
  'STOPPING',
  'BUSY',
  'LEDGER_UNAVAILABLE',
  'LEDGER_UNCERTAIN',
];

/** Repeats a request until it is accepted or refused. Returns undefined if `over` is aborted first. */
export async function sendUntilAccepted(
  stateDir: string,
  { name: unit, operation, input }: TestUnit,
  over: AbortSignal,
): Promise<AcceptedRequest | undefined> {
  const headers = { 'idempotency-key': makeToken() };
  const owner = describeSocketOwner(stateDir);
  while (!over.aborted) {
    const socketPath = await findSocket(owner);
    if (socketPath !== undefined) {
      const target = { socketPath, key: readControlKey(socketPath, owner) };
      try {
        const response = await new HttpCaller(target, headers).call(operation, input);
        return { unit, id: String(response['run_id'] ?? response['job_id']) };
      } catch (thrown) {
        const isTemporary = thrown instanceof DuctileError && temporaryErrors.includes(thrown.code);
        if (!isTemporary) throw thrown;
      }
    }
    await sleep(RETRY_MS);
  }
  return undefined;
}
