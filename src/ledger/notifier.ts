import { makeId } from '../base/ids.ts';
import type { JobEnd, KnownEnds } from '../job/types.ts';
import {
  awaitBoth,
  type EndCollector,
  type EndEvent,
  type Store,
  type Transaction,
} from './dialect.ts';

/** Messages between the hosts of one ledger. Any of them may be lost, so a reader checks the rows. */
export interface Notifier {
  onHint(listener: () => void): void;
  hint(): void;
  /** Calls back with ids that ended on other hosts; undefined if messages may have been lost. */
  onEnds(listener: (ids: readonly string[] | undefined) => void): void;
  notifyEnds(ids: readonly string[]): void;
  close(): Promise<void>;
}

/** For a ledger with one process: there is no other host. */
export const silentNotifier: Notifier = {
  onHint: () => undefined,
  hint: () => undefined,
  onEnds: () => undefined,
  notifyEnds: () => undefined,
  close: () => Promise.resolve(),
};

/** The notifications of a ledger: hints about new work, and ends of jobs and runs. */
export interface LedgerNotifications {
  /** Calls back soon, at most once for many changes, when another process made work ready. */
  onHint(listener: () => void): void;
  /** Notifies other processes that work is ready. A hint can be lost. */
  hint(): void;
  /** The name in `awaited_by` of rows whose end this process waits for. */
  readonly listener: string;
  /**
   * Calls back after a commit with jobs and runs that may have ended: all that ended in this process, and
   * awaited ones that ended in another process. Undefined means that any of them may have ended, because
   * the connection was interrupted. Read the rows to be sure; only the ends in `known` are certain.
   */
  onEnds(listener: (ids: readonly string[] | undefined, known?: KnownEnds) => void): void;
  /** Registers this process for the end of a job or run that was not enqueued as awaited here. */
  awaitEnd(what: 'job' | 'run', id: string): Promise<void>;
}

/** The value of `awaited_by` if more than one listener waits. */
const SEVERAL = '*';

/**
 * Adds notifications of ends to a store. After a commit it calls this process's listener with all ends,
 * and notifies other hosts of ends that one of them awaits according to the row. So an end without a
 * waiter costs nothing, and a notification that can't be sent fails no commit.
 */
export function withEndNotifications(
  store: Store,
  notifier: Pick<Notifier, 'onHint' | 'hint' | 'onEnds' | 'notifyEnds'>,
): { readonly store: Store } & LedgerNotifications {
  const listener = makeId();
  let notifyOwn: (ids: readonly string[], known?: KnownEnds) => void = () => undefined;

  const notify = (ends: readonly EndEvent[], known?: KnownEnds): void => {
    if (ends.length === 0) return;
    notifyOwn(
      ends.map(({ id }) => id),
      known,
    );
    const isElsewhere = ({ awaitedBy }: EndEvent) => awaitedBy !== null && awaitedBy !== listener;
    notifier.notifyEnds(ends.filter(isElsewhere).map(({ id }) => id));
  };

  const write: Store['write'] = async (names, work) => {
    const ends: EndEvent[] = [];
    let known = new Map<string, JobEnd>();
    const note: EndCollector['note'] = (end, how) => {
      ends.push(end);
      if (how !== undefined) known.set(end.id, how);
    };
    let isCommitted = false;
    try {
      const result = await store.write(names, (tx) => {
        // The transaction may be repeated. Only the ends of its last attempt are certain.
        known = new Map();
        return work({ ...tx, ends: { listener, note } });
      });
      isCommitted = true;
      return result;
    } finally {
      // An attempt that was rolled back notifies as well: a listener reads the rows anyway.
      notify(ends, isCommitted ? known : undefined);
    }
  };

  return {
    store: { ...store, write },
    listener,
    onHint: notifier.onHint,
    hint: notifier.hint,
    onEnds(callback) {
      notifyOwn = callback;
      notifier.onEnds(callback);
    },
    async awaitEnd(what, id) {
      const { lockClaimsShared } = store.dialect;
      if (what === 'job' && lockClaimsShared !== undefined) {
        const isDone = await write(['other'], (tx) =>
          registerBetweenClaims(tx, lockClaimsShared, id, listener),
        );
        if (isDone) return;
      }
      await write(['other'], (tx) => register(tx, what, id, listener));
    },
  };
}

/**
 * Registers the listener while no process claims. Claims skip locked rows, so writing the row at another
 * time could delay the job. A locked row is skipped here as well: its holder may be about to claim, and
 * both transactions would wait for each other.
 */
async function registerBetweenClaims(
  tx: Transaction,
  lockClaimsShared: string,
  id: string,
  listener: string,
): Promise<boolean> {
  const table = tx.dialect.table('job_queue');
  const free = `select id from ${table} where id = ? ${tx.dialect.skipLocked}`;
  const values = [listener, id, listener, id];
  const [, written] = await awaitBoth(
    tx.run(lockClaimsShared),
    tx.run(`${updateListener(table)} and id in (${free}) returning id`, values),
  );
  return written.length > 0;
}

async function register(
  tx: Transaction,
  what: 'job' | 'run',
  id: string,
  listener: string,
): Promise<void> {
  const table = tx.dialect.table(what === 'job' ? 'job_queue' : 'pipeline_runs');
  await tx.run(updateListener(table), [listener, id, listener]);
}

function updateListener(table: string): string {
  return `update ${table} set awaited_by = case when awaited_by is null then ? else '${SEVERAL}' end
    where id = ? and completed_at is null and coalesce(awaited_by, '') not in (?, '${SEVERAL}')`;
}
