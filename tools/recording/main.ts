/** Records how a job survives `kill -9` of the service, for the README. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { formatRecording, type RecordedLine } from './recording.ts';

const root = resolve(import.meta.dirname, '../..');
const target = join(root, 'docs/get-started/pictures/recovery.svg');
const home = mkdtempSync(join(tmpdir(), 'ductile-recording-'));
const env = { PATH: process.env['PATH'], HOME: home };
const program = join(root, 'bin/ductile.cjs');
const running = new Set<ChildProcess>();

/** Seconds between a command and its output, and after an output. */
const THINKING = 0.7;
const READING = 1.6;

const lines: RecordedLine[] = [];
let now = 0.4;

function show(command: string, output: string, comment = ''): void {
  if (comment !== '') lines.push({ at: now, text: `# ${comment}`, kind: 'comment' });
  lines.push({ at: now, text: `$ ${command}`, kind: 'command' });
  now += THINKING;
  for (const text of output.trimEnd().split('\n')) {
    if (output !== '') lines.push({ at: now, text, kind: 'output' });
  }
  lines.push({ at: now, text: '', kind: 'output' });
  now += READING;
}

function ductile(...words: readonly string[]): string {
  return execFileSync(process.execPath, [program, ...words], { env, encoding: 'utf8' });
}

async function startService(): Promise<ChildProcess> {
  const service = spawn(process.execPath, [program, 'system', 'start'], { env, stdio: 'pipe' });
  running.add(service);
  for await (const line of createInterface(service.stdout)) {
    if (line.includes('ductile is ready')) break;
  }
  service.stdout.resume();
  return service;
}

async function end(service: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const ended = once(service, 'exit');
  service.kill(signal);
  await ended;
  running.delete(service);
}

async function waitUntilRunning(job: string): Promise<void> {
  for (let round = 0; round < 100; round += 1) {
    if (ductile('job', 'show', job).includes('running')) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error('the job did not start');
}

try {
  ductile('init', '--yes', '--no-api');
  const first = await startService();
  const payload = '{"sleep_ms":3000}';
  const queued = ductile('plugin', 'run', 'echo', '--payload', payload, '--no-wait');
  const job = /[0-9a-f]{8}-\S+/.exec(queued)?.[0] ?? '';
  await waitUntilRunning(job);
  show(
    `ductile plugin run echo --payload '${payload}' --no-wait`,
    queued,
    'a job that takes three seconds',
  );
  await end(first, 'SIGKILL');
  show(`kill -9 ${first.pid}`, '', 'the service dies in the middle of it');
  const second = await startService();
  show('ductile system start >ductile.log &', '', 'and starts again');
  const short = job.slice(0, 13);
  show(`ductile job wait ${short}`, ductile('job', 'wait', job));
  const attempts = ductile('job', 'show', job).split('Attempts\n')[1]?.split('\n\n')[0] ?? '';
  show(`ductile job show ${short} | grep -A3 ^Attempts`, `Attempts\n${attempts}`);
  await end(second, 'SIGTERM');
  writeFileSync(
    target,
    formatRecording('A job survives kill -9 of the service', lines.slice(0, -1)),
  );
} finally {
  for (const service of running) service.kill('SIGKILL');
  rmSync(home, { recursive: true, force: true });
}
