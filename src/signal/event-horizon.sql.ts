import { together, type Session } from '../ledger/dialect.ts';
import { int } from '../ledger/row.ts';

/** How far everything that was recorded can be seen, where many write at once. */
export interface Reach {
  /** Rows of transactions below it: all of these are over. */
  readonly txBelow: number;
  /** Jobs up to this number: whoever was given one of them has committed or given up. */
  readonly jobsUpTo: number;
}

export interface Sight {
  /** Undefined where there is one writer, and as long as nothing is certain yet. */
  readonly reach: Reach | undefined;
  /** All transactions below it are over by now. */
  readonly settledBelow: number;
  /** Something was begun that has to be over before more can be seen. */
  readonly isPending: boolean;
}

export interface Horizon {
  look(session: Session): Promise<Sight>;
}

interface Mark extends Reach {
  /** When all transactions below it are over, the reach is certain. */
  readonly overBelow: number;
}

/**
 * Follows where the record is complete. Rows of jobs are written again with every change, so they have
 * no index by transaction. Instead, when there are new ones, a mark is set: the highest number that any
 * job was given, and then a new transaction. A job has its transaction before it has its number, so
 * when all before that transaction are over, no job up to that number can come any more.
 *
 * Other rows are shown up to a transaction that was read before the number: of a job whose end can be
 * seen, the beginning can be seen too.
 */
export function makeHorizon(): Horizon {
  let reach: Reach | undefined;
  let mark: Mark | undefined;
  return {
    async look(session) {
      const { settledBelow, lastJobGiven } = session.dialect;
      if (settledBelow === undefined)
        return { reach: undefined, settledBelow: 0, isPending: false };
      const [first = {}] = await session.run(
        `select ${settledBelow} as settled, ${lastJobGiven} as job`,
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
  const { settledBelow, newTransaction } = session.dialect;
  // They travel together as one transaction, and the second sees what is so when its turn comes.
  const [[begun = {}], [over = {}]] = await together(
    session.run(`select ${newTransaction} as tx`),
    session.run(`select ${settledBelow} as settled`),
  );
  const overBelow = int(begun, 'tx');
  return { ...here, overBelow, isOver: int(over, 'settled') >= overBelow };
}

/** Looks that overlap may end in another order than they began. */
function furthest(known: Reach | undefined, { txBelow, jobsUpTo }: Reach): Reach {
  return {
    txBelow: Math.max(txBelow, known?.txBelow ?? 0),
    jobsUpTo: Math.max(jobsUpTo, known?.jobsUpTo ?? 0),
  };
}
