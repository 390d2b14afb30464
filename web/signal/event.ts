import type { Event } from '../api/types.ts';
import { link } from '../route.ts';

/** Returns the page of an event. Ends of jobs and runs aren't signals and are shown on their own pages. */
export function pageOf({ type, event_id, job_id, data }: Event): string {
  const { run_id: run, log_id: attempt } = fieldsOf(data);
  if (job_id !== null && (type === 'job.enqueued' || attempt === event_id)) {
    return link('jobs', { id: job_id });
  }
  return run === event_id ? link('runs', { id: event_id }) : link('signals', { id: event_id });
}

/** Summarizes the data of an event in one line. */
export function summaryOf(data: unknown): string {
  const { plugin, command, pipeline, last_error: error } = fieldsOf(data);
  const words = [plugin, command, pipeline, error].filter((part) => typeof part === 'string');
  return typeof plugin === 'string' || typeof pipeline === 'string'
    ? words.join(' ')
    : JSON.stringify(data);
}

function fieldsOf(data: unknown): Readonly<Record<string, unknown>> {
  return typeof data === 'object' && data !== null ? { ...data } : {};
}
