import { makeId } from '../base/ids.ts';
import {
  awaitBoth,
  type EndEvent,
  type EndCollector,
  type Store,
  type Transaction,
} from './dialect.ts';
import type { JobEnd, KnownEnds } from '../job/types.ts';
import type { Ledger } from './ledger.ts';
import type { Notifier } from './notifier.ts';

type NotifyingVerb = 'listener' | 'onHint' | 'hint' | 'onEnds' | 'awaitEnd';

/** Stands for a listener where more than one waits. */
const SEVERAL = '*';

/**
 * Tells ends after their commit: those of this process to its own listener, whatever they are, and to
 * others only those that one of them waits for, which the row itself says. So an end that nobody
 * waits for costs nothing, and a notification that cannot be sent fails no commit.
 */
export function withEnds(
  store: Store,
  notifier: Pick<Notifier, 'onHint' | 'hint' | 'onEnds' | 'notifyEnds'>,
): { readonly store: Store } & Pick<Ledger, NotifyingVerb> {
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
    const noted: EndEvent[] = [];
    let known = new Map<string, JobEnd>();
    const note: EndCollector['note'] = (end, how) => {
      noted.push(end);
      if (how !== undefined) known.set(end.id, how);
    };
    let isCommitted = false;
    try {
      const answer = await store.write(names, (tx) => {
        // It may be tried again, and then counts what the last try closes.
        known = new Map();
        return work({ ...tx, ends: { listener, note } });
      });
      isCommitted = true;
      return answer;
    } finally {
      // Also those of a try that was undone, or whose commit is unknown: to be told only means to look.
      notify(noted, isCommitted ? known : undefined);
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
          registerAside(tx, lockClaimsShared, id, listener),
        );
        if (isDone) return;
      }
      await write(['other'], (tx) => register(tx, what, id, listener));
    },
  };
}

/**
 * Claims pass over a row that somebody writes, and whoever waits for a job should not make it wait:
 * so it is written while nobody claims. One that is locked is left alone here, because its holder
 * may itself be about to claim.
 */
async function registerAside(
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
    tx.run(`${noteListener(table)} and id in (${free}) returning id`, values),
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
  await tx.run(noteListener(table), [listener, id, listener]);
}

function noteListener(table: string): string {
  return `update ${table} set awaited_by = case when awaited_by is null then ? else '${SEVERAL}' end
    where id = ? and completed_at is null and coalesce(awaited_by, '') not in (?, '${SEVERAL}')`;
}
