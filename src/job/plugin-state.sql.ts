import { isObject, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Closing } from '../ledger/commit.ts';
import { defineRows, type Session, type Transaction } from '../ledger/dialect.ts';
import type { DirectiveEnd } from '../directive/types.ts';
import { defineInsert, insertRow } from '../ledger/insert.ts';
import { writeMeta } from '../ledger/meta.ts';
import { int, readRows, text } from '../ledger/row.ts';
import { rangeAfter, readWalk, type WalkStream } from '../ledger/walk.ts';
import { WhereClause } from '../ledger/where.ts';
import { fence, fenceColumns, toFenceRow } from './attempt.sql.ts';
import { factTable, switchTable, type Fact, type PluginSwitch } from './types.ts';

/** The effect of closings on the states of their plugins, computed before anything is written. */
export interface StatePlan {
  /** Jobs whose closing would exceed the limit of the state. */
  readonly oversize: ReadonlySet<string>;
  /** The state after each closing, by job. */
  readonly after: ReadonlyMap<string, string>;
}

export const noStatePlan: StatePlan = { oversize: new Set(), after: new Map() };

/**
 * Reads and locks the states, plugins in a fixed order, and applies the changes in sequence. Only
 * attempts that will close count, so the job rows are locked first.
 */
export async function planState(tx: Transaction, closings: readonly Closing[]): Promise<StatePlan> {
  const withState = closings
    .filter(({ state }) => state !== undefined)
    .toSorted((one, two) => (one.job.id < two.job.id ? -1 : 1));
  const locked = await tx.each(lockUnderFence, withState.map(toFenceRow));
  const closable = new Set(locked.map((row) => text(row, 'id')));
  const changing = closings.filter(({ job, state }) => state !== undefined && closable.has(job.id));
  if (changing.length === 0) return noStatePlan;
  const states = await lockStates(tx, [...new Set(changing.map(({ job }) => job.plugin))].sort());
  const oversize = new Set<string>();
  const after = new Map<string, string>();
  for (const { job, state } of changing) {
    if (state === undefined) continue;
    const before = states.get(job.plugin) ?? '{}';
    const next = state.kind === 'merge' ? mergeState(before, state.value) : state.value;
    if (Buffer.byteLength(next) > limits.stateBytesMax) {
      oversize.add(job.id);
      continue;
    }
    const stored = state.kind === 'snapshot' && !state.mirror ? before : next;
    states.set(job.plugin, stored);
    after.set(job.id, stored);
  }
  return { oversize, after };
}

/** Writes the facts of the closings that closed, and the last state of each plugin. */
export async function applyState(
  tx: Transaction,
  plan: StatePlan,
  closed: readonly Closing[],
): Promise<void> {
  const changing = closed.filter(({ job }) => plan.after.has(job.id));
  if (changing.length === 0) return;
  const facts = changing.flatMap(({ job, state }) =>
    state?.kind === 'snapshot'
      ? [
          {
            plugin: job.plugin,
            factType: state.factType,
            jobId: job.id,
            command: job.command,
            fact: state.value,
          },
        ]
      : [],
  );
  if (facts.length > 0) {
    const first = await reserveNumbers(tx, facts.length);
    await tx.each(
      insertFacts,
      facts.map((fact, index) => ({ ...fact, seq: first + index })),
    );
  }
  const last = new Map(changing.map(({ job }) => [job.plugin, plan.after.get(job.id) ?? '{}']));
  await tx.each(
    writeState,
    [...last].map(([plugin_name, state]) => ({ plugin_name, state })),
  );
}

export async function readState(session: Session, plugin: string): Promise<string> {
  const [row] = await session.run(
    `select state from ${session.dialect.table('plugin_state')} where plugin_name = ?`,
    [plugin],
  );
  return row === undefined ? '{}' : text(row, 'state');
}

/** Lists the facts of a plugin, newest first. */
export async function listFacts(
  session: Session,
  plugin: string,
  limit: number,
  factType?: string,
  beforeSeq?: number,
): Promise<Fact[]> {
  const where = new WhereClause();
  const stream: WalkStream =
    factType === undefined
      ? {
          index: 'plugin_facts_plugin',
          key: ['plugin_name', plugin],
          where,
          rest: new WhereClause(),
        }
      : {
          index: 'plugin_facts_type',
          key: ['fact_type', factType],
          where: where.equals({ plugin_name: plugin }),
          rest: new WhereClause(),
        };
  const { rows } = await readWalk(session, {
    table: session.dialect.table('plugin_facts'),
    columns: [],
    ways: [[stream]],
    order: 'newest',
    range: rangeAfter({}, beforeSeq, 'newest'),
    limit,
    visitMax: limit,
    map: factTable.decode,
  });
  return [...rows];
}

function mergeState(before: string, updates: string): string {
  const old: unknown = parseJson(before);
  const changes: unknown = parseJson(updates);
  const base: JsonObject = isObject(old) ? old : {};
  return JSON.stringify({ ...base, ...(isObject(changes) ? changes : {}) });
}

/** Locks the states of plugins, with empty states for plugins that have none. */
async function lockStates(
  tx: Transaction,
  plugins: readonly string[],
): Promise<Map<string, string>> {
  const rows = plugins.map((plugin_name) => ({ plugin_name, state: '{}' }));
  await tx.each(ensureState, rows);
  const found = await tx.each(lockState, rows);
  return new Map(found.map((row) => [text(row, 'plugin_name'), text(row, 'state')]));
}

/** Reserves sequence numbers of facts. Returns the first one. */
async function reserveNumbers(tx: Transaction, count: number): Promise<number> {
  const [row] = await tx.run(
    `update ${tx.dialect.table('storage_sequences')} set value = value + ?
      where name = 'plugin_facts' returning value`,
    [count],
  );
  return int(row ?? {}, 'value') - count + 1;
}

const lockUnderFence = defineRows({
  columns: fenceColumns,
  key: 'seq',
  sql: (r, d) =>
    `select q.id from ${r.lateral(
      `select j.id from ${d.table('job_queue')} j where ${fence(r, 'j')} ${d.forUpdate}`,
    )}`,
});

const stateColumns = { plugin_name: 'text', state: 'text' } as const;

const ensureState = defineRows({
  columns: stateColumns,
  sql: (r, d) => `insert into ${d.table('plugin_state')} (plugin_name, state, updated_at)
    select ${r('plugin_name')}, ${r('state')}, ${d.now} ${r.from}
    where true on conflict (plugin_name) do nothing`,
});

const lockState = defineRows({
  columns: stateColumns,
  sql: (r, d) =>
    `select q.plugin_name, q.state from ${r.lateral(
      `select s.* from ${d.table('plugin_state')} s
      where s.plugin_name = ${r('plugin_name')} ${d.forUpdate}`,
    )}`,
});

const writeState = defineRows({
  columns: stateColumns,
  sql: (r, d) => `update ${d.table('plugin_state')} set state = ${r('state')}, updated_at = ${d.now}
    ${r.from} where plugin_state.plugin_name = ${r('plugin_name')}`,
});

const insertFacts = defineInsert(factTable, {
  properties: factTable.except('createdAt'),
  sql: (_, d) => ({ createdAt: d.now }),
});

export async function listDisabledPlugins(session: Session): Promise<PluginSwitch[]> {
  const columns = switchTable.pick('plugin', 'changedBy', 'changedAt');
  return await readRows(session, columns, 'where enabled = 0 order by plugin_name');
}

/** Pauses or resumes the service. */
export async function switchPause(tx: Transaction, paused: boolean): Promise<DirectiveEnd> {
  await lockClaims(tx);
  await writeMeta(tx, 'paused', paused ? '1' : '0');
  return { status: 'completed', result: { paused } };
}

/** Enables or disables a plugin. */
export async function switchPlugin(
  tx: Transaction,
  { plugin, enabled }: { readonly plugin: string; readonly enabled: boolean },
  actor: string,
): Promise<DirectiveEnd> {
  await lockClaims(tx);
  await insertRow(
    tx,
    switchTable,
    { plugin, enabled, changedBy: actor, changedAt: { sql: tx.dialect.now } },
    `on conflict (plugin_name) do update set enabled = excluded.enabled,
      changed_by = excluded.changed_by, changed_at = excluded.changed_at`,
  );
  return { status: 'completed', result: { plugin, enabled } };
}

/** Waits for claims in progress on other hosts; later claims see the change. */
async function lockClaims(tx: Transaction): Promise<void> {
  if (tx.dialect.lockClaims !== undefined) await tx.run(tx.dialect.lockClaims);
}
