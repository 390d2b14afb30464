import { showRow } from '../base/show-row.ts';
import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { nonBlankText } from '../base/fields.ts';
import { toCanonicalJson, isObject, parseStoredJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { compareKeys } from './effective.ts';
import type { ConfigSnapshot, SnapshotPosition } from './snapshot.sql.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { defineOperation } from '../operation/define.ts';
import {
  limitField,
  nextCursorField,
  pageFields,
  readKeyCursor,
  writeKeyCursor,
} from '../operation/page.ts';

const snapshotShape = z.object({
  config_snapshot_id: z.string(),
  created_at: z.string(),
  last_used_at: z.string().describe('updated from time to time while a process uses it'),
  reason: z.enum(['start', 'reload']),
  generation: z.int().describe('1 at the start of the process, one more with each reload'),
  process_id: z.string(),
  hash: z.string().describe('hash of the configuration; the same if nothing changed'),
  plugins: z.unknown().describe('the fingerprint of each plugin'),
  compared_with: z.string().nullable().describe('id of the previous snapshot; null for the first'),
  changed: z.string().describe('differences from the previous snapshot, in one line'),
  changes: z
    .array(
      z.object({ key: z.string(), before: z.string().nullable(), after: z.string().nullable() }),
    )
    .describe(`keys that differ, at most ${limits.snapshotChangesMax}; secrets are masked`),
  changes_left: z.int().describe('number of further keys that differ'),
  plugins_changed: z
    .array(z.string())
    .describe('plugins that were added or removed, or whose program or settings changed'),
  config: z
    .unknown()
    .optional()
    .describe('the configuration without secrets; only if the request names the id'),
});

export const configHistory = defineOperation({
  name: 'config.history',
  summary: 'List the configurations that processes used, newest first, with their changes.',
  details: ['plugins'],
  effect: 'read',
  isForRoot: true,
  scope: 'config:ro',
  needs: 'ledger',
  input: z.strictObject({
    id: nonBlankText().optional().describe('only this snapshot, with its configuration'),
    cursor: pageFields.cursor,
    limit: limitField,
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
        ['CHANGED', 'changed'],
        ['PROCESS', 'process_id', 'detail'],
        ['HASH', 'hash', 'detail'],
        ['LAST USED', 'last_used_at', 'detail'],
      ],
      empty: 'No snapshots. `ductile system start` records the first one.',
    },
  },
  async run({ engine: { ledger } }, { id, cursor, limit: rows }) {
    if (id === undefined) {
      // The extra row is compared with the last row of the page.
      const found = await ledger.snapshots.list(
        rows + 1,
        cursor === undefined ? undefined : readPosition(cursor),
      );
      const page = found.slice(0, rows);
      const last = page.at(-1);
      const isLast = last === undefined || found.length <= rows;
      const next = isLast ? null : writeKeyCursor(`${last.createdAt} ${last.id}`);
      return {
        snapshots: page.map((snapshot, index) => show(snapshot, found[index + 1])),
        next_cursor: next,
      };
    }
    const found = await findSnapshot(ledger, id);
    if (found === undefined) {
      throw new DuctileError('INPUT_INVALID', `configuration snapshot ${id} was not found`, {
        place: 'id',
        hint: 'Run `ductile config history` to list the snapshots.',
      });
    }
    const [before] = await ledger.snapshots.list(1, { createdAt: found.createdAt, id: found.id });
    const shown = { ...show(found, before), config: parseStoredJson(found.config) };
    return { snapshots: [shown], next_cursor: null };
  },
});

/** Finds a snapshot by its id, or the newest one whose id has this prefix. */
async function findSnapshot(ledger: Ledger, id: string): Promise<ConfigSnapshot | undefined> {
  const whole = await ledger.snapshots.find(id);
  if (whole !== undefined || id.length < PREFIX_CHARS_MIN) return whole;
  const newest = await ledger.snapshots.list(limits.pageRowsMax);
  const match = newest.find((snapshot) => snapshot.id.startsWith(id.toLowerCase()));
  return match === undefined ? undefined : await ledger.snapshots.find(match.id);
}

const PREFIX_CHARS_MIN = 4;

function readPosition(cursor: string): SnapshotPosition {
  const [createdAt = '', id = ''] = readKeyCursor(cursor).split(' ');
  return { createdAt, id };
}

function show(
  snapshot: ConfigSnapshot,
  before: ConfigSnapshot | undefined,
): z.output<typeof snapshotShape> {
  return showRow(snapshotShape, snapshot, {
    config_snapshot_id: snapshot.id,
    plugins: parseStoredJson(snapshot.plugins),
    ...describeChanges(snapshot, before),
  });
}

function describeChanges(snapshot: ConfigSnapshot, before: ConfigSnapshot | undefined) {
  if (before === undefined) {
    const none = { changes: [], changes_left: 0, plugins_changed: [] };
    return { compared_with: null, changed: 'first snapshot', ...none };
  }
  // Most texts are equal, so skip parsing them.
  const isSame = snapshot.config === before.config;
  const found = isSame
    ? []
    : compareKeys(parseStoredJson(before.config), parseStoredJson(snapshot.config));
  const all = found.map((change) => ({
    key: change.key,
    before: change.before ?? null,
    after: change.after ?? null,
  }));
  const changes = all.slice(0, limits.snapshotChangesMax);
  const names = comparePlugins(parseStoredJson(before.plugins), parseStoredJson(snapshot.plugins));
  const hasSecret = all.length === 0 && snapshot.hash !== before.hash;
  return {
    compared_with: before.id,
    changed: describeLine(all, names, hasSecret),
    changes,
    changes_left: all.length - changes.length,
    plugins_changed: names,
  };
}

type ShownChange = z.output<typeof snapshotShape>['changes'][number];

function describeLine(
  changes: readonly ShownChange[],
  plugins: readonly string[],
  hasSecret: boolean,
): string {
  const [first] = changes;
  const more = changes.length > 1 ? ` and ${changes.length - 1} more` : '';
  const values = `${first?.before ?? 'not set'} → ${first?.after ?? 'not set'}`;
  const parts = [
    first === undefined ? [] : `${first.key}: ${values}${more}`,
    plugins.length === 0 ? [] : `plugins: ${plugins.join(', ')}`,
    hasSecret ? 'a masked value, or a file' : [],
  ].flat();
  return parts.length === 0 ? 'nothing' : parts.join('; ');
}

function comparePlugins(before: unknown, after: unknown): string[] {
  const [old, now] = [before, after].map((plugins) => (isObject(plugins) ? plugins : {}));
  const names = new Set([...Object.keys(old ?? {}), ...Object.keys(now ?? {})]);
  const isOther = (name: string): boolean =>
    toCanonicalJson(old?.[name]) !== toCanonicalJson(now?.[name]);
  return [...names].filter(isOther).toSorted();
}
