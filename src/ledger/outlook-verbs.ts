import type { Store } from './dialect.ts';
import type { OutlookVerbs } from './outlook.ts';
import { readHolder } from './queries/dependency.ts';
import { listRunDurations, readLine } from './queries/line.ts';
import { notePruned, readOutlook, readUsage } from './queries/outlook.ts';

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
