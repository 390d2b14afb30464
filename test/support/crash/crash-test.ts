/** A place where servers are started, killed and started again, and what they did is judged. */
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

/** Long enough for PostgreSQL to end a transaction whose owner was stopped in the middle of it. */
const patienceMs = 60_000;
/** The time limit for the rest of a long trial on a busy machine. */
const drainMs = 240_000;
const SIGNALS_MAX = 1_000_000;
const RUNS_MAX = 100_000;

export interface CrashTest {
  readonly place: TestPlace;
  /** Asks whichever server is there, in turns. */
  readonly client: Client;
  /** Starts a server, with a fault point armed if one is named, without waiting for it. */
  launch(probe?: string, config?: string, program?: string): Server;
  /** Starts a server and waits until it is ready. */
  start(probe?: string): Promise<Server>;
  record(): Promise<RecordLine[]>;
  /** Waits for a line of the record. */
  recorded(operation: Operation, wanted: Partial<RecordLine>): Promise<RecordLine>;
  /** Waits until nothing is queued or running, and no run waits to go on. */
  drain(): Promise<void>;
  /** Reads or changes the ledger while no server is asked. */
  withLedger<T>(work: (ledger: Ledger) => Promise<T>): Promise<T>;
  /** Stops the servers in good order, does what is to be done without them, and compares all stories. */
  judge(known?: Circumstances, meanwhile?: () => Promise<void>): Promise<Judgement>;
}

/** The knowledge of the processes that disturbed the servers. */
export type Circumstances = Partial<
  Pick<Evidence, 'disturbances' | 'mayOverlap' | 'clockWasSet' | 'history'>
>;

/** Additional environment variables of the servers of a configuration. */
export type EnvironmentOf = (config: string | undefined) => Readonly<Record<string, string>>;

export interface Judgement extends Verdict {
  readonly evidence: Evidence;
}

export async function makeCrashTest(
  database: Database,
  service: JsonObject = {},
  { plugins, aliases, ...more }: Pick<Setup, 'webhooks' | 'plugins' | 'aliases' | 'pipelines'> = {},
  environmentOf: EnvironmentOf = () => ({}),
  later?: Later,
): Promise<CrashTest> {
  const usual = setUp(database, service);
  const place = await makePlace({
    ...usual,
    ...more,
    plugins: { ...usual.plugins, ...plugins },
    aliases: { ...usual.aliases, ...aliases },
  });
  const servers = new Map<Server, string>();
  let turn = 0;
  const client = makeClient(() => {
    // A frozen server would block the client, and with it the whole load.
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
      () => 'whoever waits for it is told',
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
    async judge(known = {}, meanwhile) {
      for (const server of servers.keys())
        if (server.isAlive) expect(await server.stop()).toEqual({ code: 0, signal: null });
      await meanwhile?.();
      const lines = await record();
      const evidence = await withLedger((ledger) => collectEvidence(ledger, client.history, lines));
      return { ...check({ ...evidence, ...known }), evidence };
    },
  };
}

/** Short times, so that a crash is over soon; crashes are many here and no plugin's fault. */
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
      // On PostgreSQL a server that stalls for that long has its own attempts killed, as it should.
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

/** The content of the ledger, beside the records of others. */
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
