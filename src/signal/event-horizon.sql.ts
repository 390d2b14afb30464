import { awaitBoth, type Session } from '../ledger/dialect.ts';
import { int } from '../ledger/row.ts';

/** The extent to which the record is complete, if there are several writers. */
interface Reach {
  /** All transactions below this number have ended. */
  readonly txBelow: number;
  /** All jobs up to this number are committed or rolled back. */
  readonly jobsUpTo: number;
}

export interface HorizonState {
  /** Undefined with a single writer, and until the first extent is certain. */
  readonly reach: Reach | undefined;
  /** All transactions below this number have ended by now. */
  readonly settledBelow: number;
  /** A transaction must end before more can be seen. */
  readonly isPending: boolean;
}

interface Horizon {
  /** Reads up to where the record is complete now. */
  read(session: Session): Promise<HorizonState>;
}

interface Mark extends Reach {
  /** The extent is certain when all transactions below this number have ended. */
  readonly overBelow: number;
}

/**
 * Tracks up to where the record is complete. Job rows are updated often, so they have no index by
 * transaction. Instead, when there are new jobs, a mark is set: the highest job number that was
 * assigned, and then a new transaction. A job gets its transaction before its number. So when all
 * transactions before the mark have ended, no job up to that number can appear any more. Other rows
 * are shown up to a transaction that was read before the number: if the end of a job is visible,
 * its start is visible, too.
 */
export function makeHorizon(): Horizon {
  let reach: Reach | undefined;
  let mark: Mark | undefined;
  return {
    async read(session) {
      const { settledBelow, lastJobSeq } = session.dialect;
      if (settledBelow === undefined)
        return { reach: undefined, settledBelow: 0, isPending: false };
      const [first = {}] = await session.run(
        `select ${settledBelow} as settled, ${lastJobSeq} as job`,
      );
      const here: Reach = { txBelow: int(first, 'settled'), jobsUpTo: int(first, 'job') };
      if (mark !== undefined && here.txBelow >= mark.overBelow) {
        reach = furthest(reach, mark);
        mark = undefined;
      }
      if (here.jobsUpTo <= (reach?.jobsUpTo ?? 0)) {
        reach = furthest(reach, here);
      } else if (mark === undefined) {
        const { isOver, ...set } = await setMark(session, here);
        if (isOver) reach = furthest(reach, set);
        else mark ??= set;
      }
      return { reach, settledBelow: here.txBelow, isPending: mark !== undefined };
    },
  };
}

async function setMark(session: Session, here: Reach): Promise<Mark & { isOver: boolean }> {
  const { settledBelow, ownTransaction } = session.dialect;
  // Both are sent as one transaction. The second statement sees the state at its own start.
  const [[begun = {}], [over = {}]] = await awaitBoth(
    session.run(`select ${ownTransaction} as tx`),
    session.run(`select ${settledBelow} as settled`),
  );
  const overBelow = int(begun, 'tx');
  return { ...here, overBelow, isOver: int(over, 'settled') >= overBelow };
}

/** Concurrent reads can end in another order than they started. */
function furthest(known: Reach | undefined, { txBelow, jobsUpTo }: Reach): Reach {
  return {
    txBelow: Math.max(txBelow, known?.txBelow ?? 0),
    jobsUpTo: Math.max(jobsUpTo, known?.jobsUpTo ?? 0),
  };
}
