/** A configuration whose services are started and killed repeatedly, and then checked. */
import { noRules } from '../../../src/ledger/rules.ts';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { JsonObject } from '../../../src/base/json.ts';
import { limits } from '../../../src/base/limits.ts';
import type { Job } from '../../../src/job/job.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { openLedger } from '../../../src/ledger/open.ts';
import { readState } from '../hosts.ts';
import { eventually, makePlace, type Database, type Setup, type TestPlace } from '../instance.ts';
import { check, type Verdict } from './checker.ts';
import { makeClient, type Client, type Operation } from './client.ts';
import type { Evidence } from './evidence.ts';
import { isRunning, readRecord, doneEvent, recorder, type RecordLine } from './recorder.ts';
import { launch, type Later, type Server } from './server.ts';

/** Long enough for PostgreSQL to end the transaction of a stopped process. */
const patienceMs = 120_000;
/** Time limit for the remaining work of a long trial on a busy machine. */
const drainMs = 240_000;
const SIGNALS_MAX = 1_000_000;
const RUNS_MAX = 100_000;

export interface CrashTest {
  readonly place: TestPlace;
  /** Sends requests to all running services in turn. */
  readonly client: Client;
  /** Starts a service, optionally with a fault point, without waiting for it. */
  launch(probe?: string, config?: string, program?: string): Server;
  /** Starts a service and waits until it is ready. */
  start(probe?: string): Promise<Server>;
  record(): Promise<RecordLine[]>;
  /** Waits for a line of the record. */
  recorded(operation: Operation, wanted: Partial<RecordLine>): Promise<RecordLine>;
  /** Waits until no job or run is queued or running. */
  drain(): Promise<void>;
  /** Opens the ledger directly. */
  withLedger<T>(work: (ledger: Ledger) => Promise<T>): Promise<T>;
  /** Stops all services, runs `meanwhile`, and checks the evidence. */
  verify(known?: Circumstances, meanwhile?: () => Promise<void>): Promise<CrashTestResult>;
}

/** Known disturbances of a test. */
export type Circumstances = Partial<
  Pick<Evidence, 'disturbances' | 'mayOverlap' | 'clockWasSet' | 'history'>
>;

/** Additional environment variables of the servers of a configuration. */
export type EnvironmentOf = (config: string | undefined) => Readonly<Record<string, string>>;

export interface CrashTestResult extends Verdict {
  readonly evidence: Evidence;
}

export async function makeCrashTest(
  database: Database,
  service: JsonObject = {},
  { plugins, aliases, ...more }: Pick<Setup, 'webhooks' | 'plugins' | 'aliases' | 'pipelines'> = {},
  environmentOf: EnvironmentOf = () => ({}),
  later?: Later,
): Promise<CrashTest> {
  const defaults = setUp(database, service);
  const place = await makePlace({
    ...defaults,
    ...more,
    plugins: { ...defaults.plugins, ...plugins },
    aliases: { ...defaults.aliases, ...aliases },
  });
  const servers = new Map<Server, string>();
  let turn = 0;
  const client = makeClient(() => {
    // A frozen service would block the client, and with it the whole load.
    const live = [...servers].filter(([{ isAlive, pid }]) => isAlive && readState(pid) !== 'T');
    return live[(turn += 1) % live.length]?.[1];
  });
  const launchHere: CrashTest['launch'] = (probe, config, program) => {
    const server = launch(place.directory, probe, environmentOf(config), {
      config,
      program,
      later,
    });
    server.ready.then(
      ({ control }) => servers.set(server, control),
      () => undefined,
    );
    return server;
  };
  const record = (): Promise<RecordLine[]> => readRecord(join(place.directory, 'record'));
  const withLedger: CrashTest['withLedger'] = async (work) => {
    const ledger = await openLedger(place.config.state, noRules);
    try {
      return await work(ledger);
    } finally {
      await ledger.close();
    }
  };
  return {
    place,
    client,
    launch: launchHere,
    async start(probe) {
      const server = launchHere(probe);
      await server.ready;
      return server;
    },
    record,
    recorded: ({ jobId }, wanted) =>
      eventually(
        `${jobId} has recorded ${JSON.stringify(wanted)}`,
        async () => (await record()).find((line) => line.job_id === jobId && fits(line, wanted)),
        patienceMs,
      ),
    async drain() {
      const isDone = async (): Promise<boolean> =>
        (await client.backlog()) === 0 && !(await client.hasRuns());
      await eventually('all is done', isDone, drainMs);
    },
    withLedger,
    async verify(known = {}, meanwhile) {
      for (const server of servers.keys())
        if (server.isAlive) expect(await server.stop()).toEqual({ code: 0, signal: null });
      await meanwhile?.();
      const lines = await record();
      const evidence = await withLedger((ledger) => collectEvidence(ledger, client.history, lines));
      return { ...check({ ...evidence, ...known }), evidence };
    },
  };
}

/** Uses short times, so that tests recover quickly, and allows many crashes. */
function setUp(database: Database, service: JsonObject): Setup {
  const file = '../../record';
  return {
    database,
    isBare: true,
    plugins: { recorder: { program: recorder, settings: { config: { file, emits: true } } } },
    aliases: { follower: { uses: 'recorder', config: { file, emits: false } } },
    routes: [{ from: 'recorder', event_type: doneEvent, to: 'follower' }],
    service: {
      heartbeat_interval: '100ms',
      // On PostgreSQL the attempts of a service that stalls for that long are killed, as intended.
      reap_after: database === 'postgres' ? '1500ms' : '400ms',
      poll_interval: '50ms',
      shutdown_timeout: '5s',
      max_crashes: 100,
      ...service,
    },
  };
}

function fits(line: RecordLine, wanted: Partial<RecordLine>): boolean {
  return Object.entries(wanted).every(([key, value]) => line[key as keyof RecordLine] === value);
}

/** Reads the ledger and combines it with the records of clients and plugins. */
export async function collectEvidence(
  ledger: Ledger,
  history: readonly Operation[],
  record: readonly RecordLine[],
): Promise<Evidence> {
  const jobs: Job[] = [];
  for (let page: Job[] | undefined; page === undefined || page.length > 0;) {
    const beforeSeq = page?.at(-1)?.seq;
    const from = beforeSeq === undefined ? {} : { beforeSeq };
    page = await ledger.jobs.list({ ...from, limit: limits.pageRowsMax });
    jobs.push(...page);
  }
  return {
    history,
    record,
    jobs,
    attempts: await ledger.attempts.listByJob(jobs.map(({ id }) => id)),
    signals: await ledger.signals.list({ limit: SIGNALS_MAX }),
    runs: await ledger.runs.list({ limit: RUNS_MAX }),
    problems: await ledger.check(),
    leftovers: record.filter(isRunning).map(({ pid }) => pid),
  };
}
