import type { Store } from './dialect.ts';
import type { OutlookVerbs } from '../tenant/outlook.ts';
import { readHolder } from '../job/dependency.sql.ts';
import { listRunDurations, readLine } from '../job/queue.sql.ts';
import { notePruned, readOutlook, readUsage } from '../tenant/due-work.sql.ts';

export function makeOutlookVerbs({ read, write }: Store): OutlookVerbs {
  return {
    outlook: () => read(readOutlook),
    usage: (upTo) => read((session) => readUsage(session, upTo)),
    notePruned: () => write(['other'], notePruned),
    dependencyHolder: (key) => read((session) => readHolder(session, key)),
    runDurations: (of) => read((session) => listRunDurations(session, of)),
    line: (job) => read((session) => readLine(session, job)),
  };
}
