/** The requests to a large ledger, by name: the same for all sizes and databases. */

/** The requests of the Overview page. */
export const overviewPaths = [
  '/system/status',
  '/analytics/summary?window=1h',
  '/analytics/queue',
  '/jobs?status=failed,dead,timed_out&limit=6',
  '/incidents',
  '/system/breaker',
  '/schedules',
] as const;

/** Lists single requests: jobs with every filter, and the requests of monitors. */
export function listRequests(plugin: string): Readonly<Record<string, string>> {
  const since = new Date(Date.now() - 12 * 60 * 60 * 1000).toISOString();
  const until = new Date(Date.now() - 6 * 60 * 60 * 1000).toISOString();
  return {
    'no filter': '/jobs',
    'status failed': '/jobs?status=failed',
    'status queued': '/jobs?status=queued',
    'status succeeded': '/jobs?status=succeeded',
    plugin: `/jobs?plugin=${plugin}`,
    command: '/jobs?command=poll',
    'submitted by': '/jobs?submitted_by=cli',
    'plugin and status': `/jobs?plugin=${plugin}&status=succeeded`,
    time: `/jobs?from=${since}&to=${until}`,
    query: '/jobs?query=refused',
    'query without a match': '/jobs?query=nonesuch',
    status: '/system/status',
    health: '/healthz',
    metrics: '/metrics',
    queue: '/queue',
    'analytics queue': '/analytics/queue',
    'analytics summary': '/analytics/summary?window=24h',
  };
}
