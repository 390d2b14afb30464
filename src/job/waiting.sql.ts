import type { Dialect } from '../ledger/dialect.ts';

/** The condition of the index of ready jobs, word for word, so that it is used. */
export const isReady = `status = 'queued' and next_retry_at is null`;

/**
 * A table `waiting` of the plugins that have ready jobs, to be put before a select. It hops from one
 * plugin to the next in the index of ready jobs, whatever the length of the queue.
 */
export function withWaiting(d: Dialect): string {
  const jobs = d.table('job_queue');
  return `with recursive hops(plugin) as (
      select min(plugin) from ${jobs} where ${isReady}
      union all
      select (select min(plugin) from ${jobs} where ${isReady} and plugin > hops.plugin)
        from hops where hops.plugin is not null
    ), waiting(plugin) as (select plugin from hops where plugin is not null)`;
}
