import { config } from 'zod';
import { loadOperations, LocalCaller } from '../cli/callers.ts';
import type { LocalConnection } from '../cli/host.ts';
import type { StateConfig } from '../config/config.ts';
import type { Engine } from '../engine/engine.ts';
import { openReadonlyLedger } from '../ledger/open-readonly.ts';
import { localOwner } from '../operation/context.ts';
import type { Operation } from '../operation/define.ts';
import { inspectJob, listJobsOperation, listQueue } from '../job/operations.ts';
import { listLogs } from '../job/logs.operations.ts';

/** The most common operations; loading all others would take longer than running one of these. */
const common: readonly Operation[] = [listJobsOperation, inspectJob, listLogs, listQueue];

/** Opens the ledger for operations that need nothing else: no plugins, no engine. */
export async function openFastRead(state: StateConfig): Promise<LocalConnection> {
  // For a single input, compiling the schema costs more than it saves.
  config({ jitless: true });
  const ledger = await openReadonlyLedger(state);
  const engine = new Proxy({ ledger } as Partial<Engine> as Engine, {
    get(known, name, self) {
      if (name in known) return Reflect.get(known, name, self) as unknown;
      throw new Error(`an operation that only needs the ledger used ${String(name)}`);
    },
  });
  const principal = localOwner();
  const caller = new LocalCaller({ engine, principal, submittedBy: 'cli' }, (name) =>
    common.some((operation) => operation.name === name)
      ? Promise.resolve(common)
      : loadOperations(),
  );
  return { caller, close: () => ledger.close() };
}
