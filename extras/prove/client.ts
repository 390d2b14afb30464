import { setTimeout as sleep } from 'node:timers/promises';
import { DuctileError } from '../../src/base/errors.ts';
import { makeToken } from '../../src/base/ids.ts';
import { HttpCaller } from '../../src/cli/callers.ts';
import { findSocket, readControlKey, describeSocketOwner } from '../../src/http/control-socket.ts';
import type { Unit } from './test-plan.ts';

/** Accepted request, with the id of its job or run. */
export interface Asked {
  readonly unit: string;
  readonly id: string;
}

const AGAIN_MS = 50;
/** After these errors the outcome is unknown; a retry with the same key is safe. */
const passing: readonly string[] = [
  'SERVER_UNREACHABLE',
  'SERVER_FOREIGN',
  'STOPPING',
  'BUSY',
  'LEDGER_UNAVAILABLE',
  'LEDGER_UNCERTAIN',
];

/** Repeats a request until it is accepted or refused. Returns undefined if it was called off. */
export async function ask(
  stateDir: string,
  { name: unit, operation, input }: Unit,
  over: AbortSignal,
): Promise<Asked | undefined> {
  const headers = { 'idempotency-key': makeToken() };
  const owner = describeSocketOwner(stateDir);
  while (!over.aborted) {
    const socketPath = await findSocket(owner);
    if (socketPath !== undefined) {
      const target = { socketPath, key: readControlKey(socketPath, owner) };
      try {
        const answer = await new HttpCaller(target, headers).call(operation, input);
        return { unit, id: String(answer['run_id'] ?? answer['job_id']) };
      } catch (thrown) {
        const isPassing = thrown instanceof DuctileError && passing.includes(thrown.code);
        if (!isPassing) throw thrown;
      }
    }
    await sleep(AGAIN_MS);
  }
  return undefined;
}
