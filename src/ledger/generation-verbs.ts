import type { Store } from './dialect.ts';
import type { GenerationVerbs } from '../config/snapshot-types.ts';
import { listHealth, noteHealth, requireInits, reviewHealth } from '../job/plugin-init.sql.ts';
import {
  findSnapshot,
  listSnapshots,
  listUnmasked,
  maskSnapshots,
  recordSnapshot,
  touchSnapshot,
} from '../config/snapshot.sql.ts';
import { attemptStatistics, queueStatistics } from '../insight/statistics.sql.ts';

export function makeGenerationVerbs({ find, read, write }: Store): GenerationVerbs {
  return {
    recordSnapshot: (draft) => write(['other'], (tx) => recordSnapshot(tx, draft)),
    touchSnapshot: (id) => write(['other'], (tx) => touchSnapshot(tx, id)),
    snapshot: (id) => find((session) => findSnapshot(session, id)),
    snapshots: (limit, before) => read((session) => listSnapshots(session, limit, before)),
    unmaskedSnapshots: (limit) => read((session) => listUnmasked(session, limit)),
    maskSnapshots: (masked) => write(['other'], (tx) => maskSnapshots(tx, masked)),
    requireInits: (wishes) => write(['other'], (tx) => requireInits(tx, wishes)),
    reviewHealth: () => write(['other'], reviewHealth),
    noteHealth: (note) => write(['other'], (tx) => noteHealth(tx, note)),
    pluginHealth: () => read(listHealth),
    attemptStatistics: (windowMs) => read((session) => attemptStatistics(session, windowMs)),
    queueStatistics: (windowMs) => read((session) => queueStatistics(session, windowMs)),
  };
}
