import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { isTerminal } from './job.ts';
import type { Closing } from '../ledger/commit.ts';
import type { Enqueued } from './types.ts';
import type { RunStart } from '../pipeline/run/types.ts';
import { toLogFields } from './settle.service.ts';

/** Tells the log how an attempt ended, once that is on the ledger. */
export function tellEnd({ job, report, ending }: Closing, log: Log): void {
  const fields = {
    ...toLogFields(job),
    attempt: job.attempt,
    status: ending.status,
    cause: report.cause,
    run_ms: report.runMs,
    ...(report.cpuMs === null ? {} : { cpu_ms: report.cpuMs }),
    ...(report.memoryPeakBytes === null ? {} : { memory_peak_bytes: report.memoryPeakBytes }),
    ...(report.error === null ? {} : { error: report.error }),
    ...(ending.status === 'queued' ? { retry_in_ms: ending.delayMs } : {}),
  };
  if (report.stderr !== null) {
    log.warn('plugin wrote to stderr', {
      ...toLogFields(job),
      stderr: report.stderr,
      ...(report.stderrTruncated ? { truncated_at_bytes: limits.stderrBytesMax } : {}),
    });
  }
  if (ending.status === 'succeeded') log.info('job succeeded', fields);
  else if (ending.status === 'cancelled') log.info('job cancelled', fields);
  else if (isTerminal(ending.status)) log.error('job ended without success', fields);
  else if (report.status === 'released')
    log.warn('attempt cut short; the job is queued again', fields);
  else log.warn('attempt failed; the job is queued again', fields);
}

export function tellDropped(enqueued: readonly Enqueued[], log: Log): void {
  for (const { duplicateOf, dedupeKey } of enqueued) {
    if (duplicateOf === undefined) continue;
    log.info(DROPPED, { dedupe_key: dedupeKey, existing_job_id: duplicateOf });
  }
}

export function tellDroppedRuns(dropped: readonly RunStart[], log: Log): void {
  for (const { duplicateOf, dedupeKey } of dropped) {
    log.info(DROPPED, { dedupe_key: dedupeKey, existing_run_id: duplicateOf });
  }
}

const DROPPED = 'dropped: the same work is done or under way';
