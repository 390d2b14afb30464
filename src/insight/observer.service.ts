import { TRACE_KEY } from '../base/trace.ts';
import type { Closing } from '../ledger/commit.ts';
import type { Metrics } from './metrics.service.ts';
import { runSpanOf, spansOf } from './spans.service.ts';
import type { Tracer } from './tracer.service.ts';
import type { IncidentWatcher } from './incident-watcher.service.ts';
import type { LedgerContext } from '../engine/context.ts';

/** Passes ended attempts to metrics, traces and the incident watcher, after the commit. */
export function makeObserver(
  { ledger }: LedgerContext,
  meters: Metrics,
  tracer: Tracer,
  watcher: IncidentWatcher,
) {
  const traceRun = async (runId: string): Promise<void> => {
    const run = await ledger.runs.find(runId);
    if (run === undefined) return;
    const { eventContextId } = run;
    const context = eventContextId === null ? {} : await ledger.runs.readContext(eventContextId);
    const span = runSpanOf(run, context[TRACE_KEY]);
    if (span !== undefined) tracer.add([span]);
  };

  return {
    saw(closings: readonly Closing[]): void {
      watcher.saw(closings);
      meters.countAttempts(closings);
      if (!tracer.isOn || closings.length === 0) return;
      const nowMs = Date.now();
      tracer.add(closings.flatMap((closing) => spansOf(closing, nowMs)));
    },
    ended(runIds: readonly string[]): void {
      if (!tracer.isOn) return;
      // A trace without its first span is better than an engine that cares.
      for (const runId of runIds) void traceRun(runId).catch(() => undefined);
    },
  };
}
