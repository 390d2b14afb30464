import type { Closing, Ledger } from '../ledger/ledger.ts';
import type { EndedRun } from '../ledger/runs.ts';
import type { Meters } from './meters.ts';
import { runSpanOf, spansOf } from './spans.ts';
import type { Tracer } from './tracer.ts';
import type { Watch } from './watch.ts';

export interface ObserverOptions {
  readonly ledger: Pick<Ledger, 'run'>;
  readonly meters: Meters;
  readonly tracer: Tracer;
  readonly watch: Watch;
}

/** Whoever counts, measures or watches is told here of attempts that have ended, after the commit. */
export function makeObserver({ ledger, meters, tracer, watch }: ObserverOptions) {
  const traceRun = async ({ runId, traceparent }: EndedRun): Promise<void> => {
    const run = await ledger.run(runId);
    const span = run === undefined ? undefined : runSpanOf(run, traceparent);
    if (span !== undefined) tracer.add([span]);
  };

  return {
    saw(closings: readonly Closing[]): void {
      watch.saw(closings);
      meters.settled(closings);
      if (!tracer.isOn || closings.length === 0) return;
      const nowMs = Date.now();
      tracer.add(closings.flatMap((closing) => spansOf(closing, nowMs)));
    },
    ended(runs: readonly EndedRun[]): void {
      if (!tracer.isOn) return;
      // A trace without its first span is better than an engine that cares.
      for (const run of runs) void traceRun(run).catch(() => undefined);
    },
  };
}
