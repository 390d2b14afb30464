/** An installation with the real program on a database of its own, which breakages break. */
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { Json, JsonObject } from '../../../src/base/json.ts';
import { makeClient, type Client } from '../../support/crash/client.ts';
import { launch, type LaunchOptions, type Server } from '../../support/crash/server.ts';
import { lockConfig } from '../../support/config-tree.ts';
import { eventually, makePlace, type Database, type Setup } from '../../support/instance.ts';

import { makeOperator } from './operator.ts';

export interface Installation {
  readonly directory: string;
  readonly database: Database;
  /** Requests over the control socket of the running service, as other programs send them. */
  readonly client: Client;
  readonly server: Server;
  /** A path in the directory of the installation. */
  path(...names: readonly string[]): string;
  /** Starts the service, with these variables in its environment. */
  start(env?: Environment, options?: LaunchOptions): Promise<Server>;
  /** Stops the service in good order. */
  stop(): Promise<void>;
  /** The address of the API, where it is enabled. */
  readonly api: string;
  /** The address of the listener of webhooks, where there is one. */
  readonly webhooks: string;
  /** The path of the control socket, which is in the state directory. */
  readonly control: string;
  /** Accepts the configuration as it is on disk. */
  lock(): void;
  /** Runs the program with this installation; rejects when it fails. */
  ductile(line: string): Promise<void>;
  /** Changes the configuration file, as an editor does; afterwards it isn't locked. */
  edit(change: (config: EditableConfig) => void): Promise<void>;
  /** Puts a file into the directory of the installation, where plugins look for it. */
  put(name: string, text?: string): Promise<void>;
  /** Starts a job, and returns its id. */
  submit(plugin: string, query?: Readonly<Record<string, string>>): Promise<string>;
  /** Waits until a job has this status, and returns the job. */
  jobIs(id: string, ...statuses: readonly string[]): Promise<JsonObject>;
  /** Starts a run of a pipeline, and returns its id. */
  startRun(pipeline: string, payload?: JsonObject): Promise<string>;
  runIs(id: string, ...statuses: readonly string[]): Promise<JsonObject>;
  /** Waits until so many jobs of a plugin have this status, and returns them. */
  jobsAre(plugin: string, status: string, count: number): Promise<JsonObject[]>;
}

export type Environment = Readonly<Record<string, string>>;
export type InstallationSetup = Omit<Setup, 'database' | 'isBare'>;

/** A parsed configuration file, to be changed in place. */
export interface EditableConfig {
  [key: string]: Json | undefined;
  service: Record<string, Json>;
  plugins: Record<string, Record<string, Json>>;
  routes: JsonObject[];
}

export async function makeInstallation(
  database: Database,
  setup: InstallationSetup,
): Promise<Installation> {
  const { directory } = await makePlace({ ...setup, database });
  const file = join(directory, 'config.yaml');
  await chmod(file, 0o600);
  lockConfig(directory);
  let current: { readonly server: Server; readonly control: string } | undefined;
  const client = makeClient(() => (current?.server.isAlive === true ? current.control : undefined));
  const post = async (path: string, body: JsonObject): Promise<JsonObject> => {
    const { status, body: answer } = await client.post(path, body);
    if (status >= 300) throw new Error(`POST ${path}: ${status} ${JSON.stringify(answer)}`);
    return answer;
  };
  const readAddress = (field: string): string => {
    const ready = current?.server.records.find(({ message }) => message === 'ductile is ready');
    return String(ready?.[field]);
  };
  const hasStatus = (path: string, statuses: readonly string[]): Promise<JsonObject> =>
    eventually(`${path} is ${statuses.join(' or ')}`, async () => {
      const { body } = await client.get(path);
      return statuses.includes(body['status'] as string) && body;
    });
  return {
    directory,
    database,
    client,
    get server() {
      if (current === undefined) throw new Error('the service was never started');
      return current.server;
    },
    get api() {
      return readAddress('api');
    },
    get webhooks() {
      return readAddress('webhooks');
    },
    get control() {
      return readAddress('control');
    },
    lock: () => lockConfig(directory),
    async ductile(line) {
      const operator = await makeOperator({ directory }, 'variable');
      const { code, stderr } = await operator.run(`ductile ${line}`);
      if (code !== 0) throw new Error(`ductile ${line} exited with ${code}: ${stderr}`);
    },
    path: (...names) => join(directory, ...names),
    async start(env = {}, options = {}) {
      const server = launch(directory, '', env, options);
      const { control } = await server.ready;
      current = { server, control };
      return server;
    },
    async stop() {
      await current?.server.stop();
    },
    async edit(change) {
      const config = parse(await readFile(file, 'utf8')) as EditableConfig;
      change(config);
      await writeFile(file, JSON.stringify(config, undefined, 2));
    },
    put: (name, text = '') => writeFile(join(directory, name), text),
    async submit(plugin, query = {}) {
      const answer = await post(
        `/plugin/${plugin}/poll?${new URLSearchParams(query).toString()}`,
        {},
      );
      return answer['job_id'] as string;
    },
    jobIs: (id, ...statuses) => hasStatus(`/job/${id}`, statuses),
    async startRun(pipeline, payload = {}) {
      return (await post(`/pipeline/${pipeline}`, { payload }))['run_id'] as string;
    },
    runIs: (id, ...statuses) => hasStatus(`/runs/${id}`, statuses),
    jobsAre: (plugin, status, count) =>
      eventually(`${count} jobs of ${plugin} are ${status}`, async () => {
        const { body } = await client.get(`/jobs?plugin=${plugin}&status=${status}`);
        const jobs = body['jobs'] as JsonObject[];
        return jobs.length >= count && jobs;
      }),
  };
}
