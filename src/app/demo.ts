import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve as resolvePath } from 'node:path';
import { styleText } from 'node:util';
import { makeToken } from '../base/ids.ts';
import { makeLogger } from '../base/log.ts';
import type { DemoOptions } from '../cli/host.ts';
import { loadConfig } from '../config/load.ts';
import { lockFiles } from '../config/integrity.ts';
import type { Engine } from '../engine/engine.ts';
import type { Job } from '../job/job.ts';
import { settleLineage } from './local-engine.ts';
import { findTypedCommand, findInstallPaths } from './install-paths.ts';
import { openServer, waitForStopSignal, type Server } from './server.ts';

const ROUND_MS = 2000;
const CHAIN_MS_MAX = 30_000;
const JOBS_SHOWN_MAX = 20;

/**
 * Runs a small automation: a file appears in a folder, a plugin notices it, and a pipeline handles
 * it. Every step is a job in the ledger.
 */
export async function runDemo({ directory, rounds, print }: DemoOptions): Promise<number> {
  const home =
    directory === undefined ? mkdtempSync(join(tmpdir(), 'ductile-demo-')) : resolvePath(directory);
  const token = prepare(home);
  const log = makeLogger({ level: 'warn', format: 'text', destination: process.stderr });
  const server = await openServer(loadConfig({ given: home }), log);
  const stop = waitForStopSignal();
  try {
    introduce(server, { home, token, print });
    for (let round = 1; round <= (rounds ?? Infinity); round += 1) {
      print(await playRound(server, home, round));
      if (round === rounds || (await Promise.race([stop, pause(ROUND_MS)])) !== undefined) break;
    }
  } finally {
    print('Stopping …');
    await server.close();
    if (directory === undefined) rmSync(home, { recursive: true, force: true });
    else print(`The files are kept in ${home}`);
  }
  return 0;
}

/** Creates a configuration and returns its token; an existing one is left as it is. */
function prepare(home: string): string | undefined {
  const { plugins } = findInstallPaths();
  mkdirSync(join(home, 'inbox'), { recursive: true, mode: 0o700 });
  const file = join(home, 'config.yaml');
  if (existsSync(file)) return undefined;
  const token = makeToken();
  writeFileSync(
    file,
    `# A file in inbox/ → folder-watch emits an event → echo repeats it → notify writes a line.
service:
  name: demo
  max_workers: 2
state:
  path: ./data/state.db
plugin_roots:
  - ${JSON.stringify(plugins)}
plugins:
  folder-watch:
    config: { path: ${JSON.stringify(join(home, 'inbox'))}, emit_initial: true, min_age_ms: 0 }
  notify:
    config:
      file: ${JSON.stringify(join(home, 'notes.jsonl'))}
      template: "{{name}} arrived, {{size}} bytes"
pipelines:
  - name: arrivals
    on: folder-watch.file_added
    steps:
      - { id: pass, uses: echo }
      - { id: tell, uses: notify }
api:
  enabled: true
  listen: 127.0.0.1:0
  auth:
    tokens: [{ name: demo, token: ${token}, scopes: ["*"] }]
`,
    { mode: 0o600 },
  );
  lockFiles(home, loadConfig({ given: home }).files, new Date().toISOString());
  return token;
}

interface Introduction {
  readonly home: string;
  readonly token: string | undefined;
  readonly print: (line: string) => void;
}

function introduce({ instance, surfaces }: Server, { home, token, print }: Introduction): void {
  const strong = (text: string): string => styleText('bold', text);
  const { spawner, slots } = instance.engine.status();
  print(
    strong('Ductile is running.') +
      ` Job slots: ${slots}. The ${spawner} spawner starts plugin processes.`,
  );
  print('');
  print(`  api         ${surfaces.api ?? 'off'}`);
  if (surfaces.api !== undefined) {
    print(`  dashboard   ${surfaces.api}/ui  (token: ${token ?? 'in config.yaml'})`);
  }
  print(`  control     ${surfaces.control}  (used by the command line)`);
  print(`  files       ${home}  (config.yaml, inbox/, notes.jsonl, data/state.db)`);
  print('');
  print('In another terminal:');
  const command = findTypedCommand(findInstallPaths().root, {
    argv: process.argv,
    cwd: process.cwd(),
  });
  print(`  ${command} job list --config ${home}`);
  print(`  ${command} pipeline graph arrivals --config ${home}`);
  print(`  ${command} run list --config ${home}`);
  print(`  ${command} plugin run echo --payload '{"hello":"you"}' --config ${home}`);
  print(`  echo hi > ${join(home, 'inbox', 'mine.txt')}`);
  print('');
  print('Every two seconds, the demo writes a file to inbox/. Press Ctrl-C to stop.');
  print('');
}

/** Drops one file and waits for its jobs. */
async function playRound({ instance }: Server, home: string, round: number): Promise<string> {
  const { engine } = instance;
  const name = `file-${Date.now()}-${round}.txt`;
  writeFileSync(join(home, 'inbox', name), `round ${round}\n`);
  const { jobId } = await engine.submit({
    plugin: 'folder-watch',
    command: 'poll',
    payload: {},
    submittedBy: 'cli',
    actor: 'cli:demo',
  });
  const jobs = await chainOf(engine, jobId);
  const steps = jobs.map(({ plugin, command, status }) => {
    const color = status === 'succeeded' ? 'green' : 'yellow';
    return `${plugin} ${command} ${styleText(color, status)}`;
  });
  return `${name}: ${steps.join(' → ')}`;
}

/** Returns all jobs that descend from the first one, when none of them is open. */
async function chainOf(engine: Engine, rootJobId: string): Promise<Job[]> {
  await engine.waitFor(rootJobId, CHAIN_MS_MAX);
  await settleLineage(engine, rootJobId, CHAIN_MS_MAX);
  return await engine.ledger.jobs.list({ rootJobId, order: 'oldest', limit: JOBS_SHOWN_MAX });
}

function pause(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(() => resolve(undefined), ms));
}
