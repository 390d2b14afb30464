import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { text } from '../base/fields.ts';
import { parseStored } from '../base/json.ts';
import type { ConfigSnapshot, SnapshotPlace } from '../ledger/generations.ts';
import { defineOperation } from './define.ts';
import { limit } from './job.ts';
import { nextCursorField, pageFields, readKeyCursor, writeKeyCursor } from './page.ts';

const snapshotShape = z.object({
  config_snapshot_id: z.string(),
  created_at: z.string(),
  last_used_at: z.string().describe('noted once in a while, as long as a process works with it'),
  reason: z.enum(['start', 'reload']),
  generation: z.int().describe('1 from the start of the process, one more with each reload'),
  process_id: z.string(),
  hash: z.string().describe('of the configuration; the same when nothing was changed'),
  plugins: z.unknown().describe('the fingerprint of each plugin'),
  config: z.unknown().optional().describe('without secrets; only when one is asked for by its id'),
});

export const configHistory = defineOperation({
  name: 'config.history',
  summary: 'List the configurations that processes worked with, newest first.',
  effect: 'read',
  isForRoot: true,
  scope: 'config:ro',
  needs: 'ledger',
  input: z.strictObject({
    id: text().optional().describe('only this one, with its configuration'),
    cursor: pageFields.cursor,
    limit,
  }),
  output: z.object({ snapshots: z.array(snapshotShape), next_cursor: nextCursorField }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/config/history' },
  cli: {
    positionals: ['id'],
    flags: { limit: '-n, --limit <count>' },
    examples: ['ductile config history', 'ductile config history 0199a1b2-… --json'],
    table: {
      rows: 'snapshots',
      columns: [
        ['ID', 'config_snapshot_id'],
        ['CREATED', 'created_at'],
        ['REASON', 'reason'],
        ['GENERATION', 'generation'],
        ['PROCESS', 'process_id'],
        ['HASH', 'hash', 'detail'],
        ['LAST USED', 'last_used_at', 'detail'],
      ],
      empty: 'Nothing has been started here yet.',
    },
  },
  async run({ engine: { ledger } }, { id, cursor, limit: rows }) {
    if (id === undefined) {
      const found = await ledger.snapshots(
        rows,
        cursor === undefined ? undefined : readPlace(cursor),
      );
      const last = found.at(-1);
      const isLast = last === undefined || found.length < rows;
      const next = isLast ? null : writeKeyCursor(`${last.createdAt} ${last.id}`);
      return { snapshots: found.map(show), next_cursor: next };
    }
    const found = await ledger.snapshot(id);
    if (found === undefined) {
      throw new DuctileError('INPUT_INVALID', `there is no configuration ${id} on record`, {
        place: 'id',
        hint: 'See those that are there with `ductile config history`.',
      });
    }
    const shown = { ...show(found), config: parseStored(found.config) };
    return { snapshots: [shown], next_cursor: null };
  },
});

function readPlace(cursor: string): SnapshotPlace {
  const [createdAt = '', id = ''] = readKeyCursor(cursor).split(' ');
  return { createdAt, id };
}

function show(snapshot: ConfigSnapshot): z.output<typeof snapshotShape> {
  return {
    config_snapshot_id: snapshot.id,
    created_at: snapshot.createdAt,
    last_used_at: snapshot.lastUsedAt,
    reason: snapshot.reason,
    generation: snapshot.generation,
    process_id: snapshot.processId,
    hash: snapshot.hash,
    plugins: parseStored(snapshot.plugins),
  };
}
