import { setTimeout as sleep } from 'node:timers/promises';
import { DuctileError } from '../../src/base/errors.ts';
import { makeToken } from '../../src/base/ids.ts';
import { HttpCaller } from '../../src/cli/callers.ts';
import { findSocket, readControlKey, describeSocketOwner } from '../../src/http/control-socket.ts';
import type { Unit } from './script.ts';

/** Something that was accepted, by the id that it was given. */
export interface Asked {
  readonly unit: string;
  readonly id: string;
}

const AGAIN_MS = 50;
/** With these nothing is known of what was asked: asking again with the same key asks for the same. */
const passing: readonly string[] = [
  'SERVER_UNREACHABLE',
  'SERVER_FOREIGN',
  'STOPPING',
  'BUSY',
  'LEDGER_UNAVAILABLE',
  'LEDGER_UNCERTAIN',
];

/** Asks until it is told that the work is accepted, or why it is not. Undefined: it was called off. */
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
