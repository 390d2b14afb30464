/**
 * Amount of work for each arm. DUCTILE_BENCH_SCALE (0.1 for a tenth) reduces all of it, to test the
 * arms; figures of such a run aren't stored.
 */
export const scale = Number(process.env['DUCTILE_BENCH_SCALE'] ?? '1');

export const settings = {
  repetitions: 7,
  repetitionsQuick: 3,
  /** Arms with processes run for a time; the others run a number of jobs. */
  burstSeconds: Math.max(0.2, scale),
  /** Requests to the API. */
  httpSeconds: Math.max(0.5, 3 * scale),
  /** Share of warm-up, in which Node compiles the code. */
  warmUpSeconds: 2,
  warmUpConnections: 32,
  /** The code path of a delivery is long and is still being compiled after two seconds. */
  webhookWarmUpSeconds: 8,
  /** Rows in a queue before a burst: more than any burst can finish. */
  queuedJobs: 20_000,
  noopJobs: scaled(20_000),
  noopJobsSlow: scaled(5_000),
  workflowJobs: scaled(3_000),
  enqueueJobs: scaled(8_000),
  /** Samples on an idle system: one job at a time, with a pause before each. */
  latencySamples: scaled(100),
  latencyPauseMs: { min: 20, max: 80 },
  /** Requests to a prewarmed plugin, with a pause for the next process to start. */
  prewarmSamples: scaled(20),
  prewarmPauseMs: 150,
  /** Starts of a command line in one burst. */
  coldStarts: 15,
  cycleJobs: scaled(20_000),
  claims: scaled(200),
  historyJobs: scaled(5_000_000),
  queuedDeep: scaled(1_000_000),
  queuedShallow: 1000,
  tickSchedules: scaled(10_000),
  tickDue: scaled(100),
  chainSteps: 10,
  /** Runs of a chain, sequential and concurrent. */
  chainSamples: scaled(100),
  chainProcessSamples: Math.max(3, Math.round(8 * scale)),
  chainsAtOnce: scaled(2000),
  foreachWidth: scaled(100_000),
  /** Signals that are emitted, and signals that are replayed. */
  emitSignals: scaled(8_000),
  replaySignals: scaled(100_000),
  /** Refused deliveries of each kind whose time is compared. */
  refusals: scaled(3000),
  /** Synchronous requests, and starts of a process to compare them with. */
  syncSamples: scaled(60),
  /** Queued jobs of one tenant while another one runs single jobs. */
  tenantQueued: scaled(100_000),
  tenantSamples: Math.max(5, Math.round(30 * scale)),
  tenantPauseMs: 1000,
  idleTenants: scaled(1000),
  idleSeconds: 10,
  /** Jobs in the ledger, and the number of times that the dashboard is opened. */
  paintJobs: scaled(100_000),
  paintSamples: scaled(15),
  /** Finished and queued jobs of a large ledger, and of a small one. */
  largeJobs: Math.max(2000, scaled(1_000_000)),
  smallJobs: 1000,
  /** Requests of each kind, and the duration of submissions beside dashboards. */
  largeSamples: Math.max(5, scaled(30)),
  largeSeconds: Math.max(1, 10 * scale),
  memoryJobs: Math.max(1000, scaled(20_000)),
  programTimeoutMs: 120_000,
  prepareTimeoutMs: 600_000,
} as const;

export const payload = {
  type: 'demo.event',
  source: 'bench',
  payload: {
    x: 1,
    y: 'hello world, this is a small payload',
    tags: ['a', 'b', 'c'],
    n: 12345.678,
    nested: { k: 'v', list: [1, 2, 3] },
  },
};

/** Request of a plugin for programs without a queue, about 200 bytes. */
export const request = `${JSON.stringify({
  protocol: 2,
  job_id: '0190b6f2-0000-7000-8000-000000000000',
  command: 'handle',
  config: { a: 1, b: 'two' },
  event: { type: 'demo', payload: { x: 1, y: 'hello world' } },
  deadline_at: '2030-01-01T00:00:00.000Z',
})}\n`;

function scaled(count: number): number {
  return Math.max(10, Math.round(count * scale));
}
