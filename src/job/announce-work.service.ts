import type { Ledger } from '../ledger/ledger.ts';

/**
 * Says before a write that it brings work. Where the writes of one moment share a commit, whoever looks
 * for work at once claims it in the commit that accepts it. Elsewhere a look would come too early.
 */
export function heraldWork(ledger: Ledger, onWork: () => void): Ledger {
  if (ledger.kind !== 'sqlite') return ledger;
  const announce = (work: readonly unknown[]): void => {
    if (work.length > 0) onWork();
  };
  const doors: Pick<Ledger, 'enqueue' | 'startRuns' | 'emit' | 'receive'> = {
    enqueue(batch) {
      announce(batch.jobs);
      return ledger.enqueue(batch);
    },
    startRuns(batch) {
      announce([...batch.jobs, ...(batch.runs ?? [])]);
      return ledger.startRuns(batch);
    },
    emit(emissions) {
      announce(emissions.flatMap(({ jobs, runs }) => [...jobs, ...runs]));
      return ledger.emit(emissions);
    },
    receive(deliveries) {
      announce(deliveries.flatMap(({ emission: { jobs, runs } }) => [...jobs, ...runs]));
      return ledger.receive(deliveries);
    },
  };
  // All else is the ledger's own, also when somebody puts something in its place.
  return Object.assign(Object.create(ledger) as Ledger, doors);
}
