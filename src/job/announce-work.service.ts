import { overlayLedger, type Ledger } from '../ledger/ledger.ts';

/**
 * Says before a write that it brings work. Where the writes of one moment share a commit, whoever looks
 * for work at once claims it in the commit that accepts it. Elsewhere a look would come too early.
 */
export function heraldWork(ledger: Ledger, onWork: () => void): Ledger {
  if (ledger.kind !== 'sqlite') return ledger;
  const announce = (work: readonly unknown[]): void => {
    if (work.length > 0) onWork();
  };
  return overlayLedger(ledger, {
    jobs: {
      enqueue(batch) {
        announce(batch.jobs);
        return ledger.jobs.enqueue(batch);
      },
    },
    runs: {
      start(batch) {
        announce([...batch.jobs, ...(batch.runs ?? [])]);
        return ledger.runs.start(batch);
      },
    },
    signals: {
      emit(emissions) {
        announce(emissions.flatMap(({ jobs, runs }) => [...jobs, ...runs]));
        return ledger.signals.emit(emissions);
      },
    },
    webhooks: {
      accept(deliveries) {
        announce(deliveries.flatMap(({ emission: { jobs, runs } }) => [...jobs, ...runs]));
        return ledger.webhooks.accept(deliveries);
      },
    },
  });
}
