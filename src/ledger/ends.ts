import { makeId } from '../base/ids.ts';
import type { End, NotedEnds, Store, Transaction } from './dialect.ts';
import type { JobEnd, KnownEnds, Ledger } from './ledger.ts';
import type { Notifier } from './notifier.ts';

type TellingVerb = 'listener' | 'onHint' | 'hint' | 'onEnds' | 'awaitEnd';

/** Stands for a listener where more than one waits. */
const SEVERAL = '*';

/**
 * Tells ends after their commit: those of this process to its own listener, whatever they are, and to
 * others only those that one of them waits for, which the row itself says. So an end that nobody
 * waits for costs nothing, and a notification that cannot be sent fails no commit.
 */
export function withEnds(
  store: Store,
  notifier: Pick<Notifier, 'onHint' | 'hint' | 'onEnds' | 'tellEnds'>,
): { readonly store: Store } & Pick<Ledger, TellingVerb> {
  const listener = makeId();
  let tellOwn: (ids: readonly string[], known?: KnownEnds) => void = () => undefined;

  const tell = (ends: readonly End[], known?: KnownEnds): void => {
    if (ends.length === 0) return;
    tellOwn(
      ends.map(({ id }) => id),
      known,
    );
    const isElsewhere = ({ awaitedBy }: End) => awaitedBy !== null && awaitedBy !== listener;
    notifier.tellEnds(ends.filter(isElsewhere).map(({ id }) => id));
  };

  const write: Store['write'] = async (names, work) => {
    const noted: End[] = [];
    let known = new Map<string, JobEnd>();
    const note: NotedEnds['note'] = (end, how) => {
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
      tell(noted, isCommitted ? known : undefined);
    }
  };

  return {
    store: { ...store, write },
    listener,
    onHint: notifier.onHint,
    hint: notifier.hint,
    onEnds(callback) {
      tellOwn = callback;
      notifier.onEnds(callback);
    },
    awaitEnd: (what, id) => write(['other'], (tx) => register(tx, what, id, listener)),
  };
}

async function register(
  tx: Transaction,
  what: 'job' | 'run',
  id: string,
  listener: string,
): Promise<void> {
  const table = tx.dialect.table(what === 'job' ? 'job_queue' : 'pipeline_runs');
  await tx.run(
    `update ${table} set awaited_by = case when awaited_by is null then ? else '${SEVERAL}' end
      where id = ? and completed_at is null and coalesce(awaited_by, '') not in (?, '${SEVERAL}')`,
    [listener, id, listener],
  );
}
