/** What an event of the stream is about. */
import type { Event } from '../api/types.ts';
import { link } from '../route.ts';

/** Where it is shown: the ends of jobs and of runs are no signals, so their own pages tell of them. */
export function placeOf({ type, event_id, job_id, data }: Event): string {
  const { run_id: run, log_id: attempt } = fieldsOf(data);
  if (job_id !== null && (type === 'job.enqueued' || attempt === event_id)) {
    return link('jobs', { id: job_id });
  }
  return run === event_id ? link('runs', { id: event_id }) : link('signals', { id: event_id });
}

/** What it says, in one line; of jobs and runs the words that matter. */
export function summaryOf(data: unknown): string {
  const { plugin, command, pipeline, last_error: error } = fieldsOf(data);
  const told = [plugin, command, pipeline, error].filter((part) => typeof part === 'string');
  return typeof plugin === 'string' || typeof pipeline === 'string'
    ? told.join(' ')
    : JSON.stringify(data);
}

function fieldsOf(data: unknown): Readonly<Record<string, unknown>> {
  return typeof data === 'object' && data !== null ? { ...data } : {};
}
