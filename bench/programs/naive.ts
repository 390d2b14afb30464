/**
 * Straightforward implementation in Node: one commit to claim a job, child_process.spawn in this process,
 * one commit to complete it.
 */
import { spawn } from 'node:child_process';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { z } from 'zod';
import { openQueueFile } from '../queue-file.ts';
import { settings } from '../settings.ts';
import { measure, timed } from './harness.ts';

const shape = z.object({
  file: z.string(),
  slots: z.number(),
  seconds: z.number(),
  entrypoint: z.string(),
});

interface Job {
  readonly seq: number;
  readonly id: string;
  readonly command: string;
  readonly payload: string;
  readonly startedAt: number;
}

await measure(shape, async ({ file, slots, seconds, entrypoint }) => {
  const database = openQueueFile(file);
  const queue = makeQueue(database);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  let end = performance.now() + settings.warmUpSeconds * 1000;
  let jobs = 0;
  const slot = async (): Promise<void> => {
    while (performance.now() < end) {
      const job = queue.claim();
      if (job === undefined) return;
      queue.complete(job, await run(entrypoint, job));
      jobs += 1;
    }
  };
  await Promise.all(Array.from({ length: slots }, slot));
  jobs = 0;
  end = performance.now() + seconds * 1000;
  delay.enable();
  const measures = await timed(async () => {
    await Promise.all(Array.from({ length: slots }, slot));
    return jobs;
  });
  database.close();
  return { ...measures, commitsPerJob: 2, loopP99Ms: delay.percentile(99) / 1e6 };
});

function makeQueue(database: DatabaseSync): {
  claim(): Job | undefined;
  complete(job: Job, result: string): void;
} {
  const claim = database.prepare(
    `update job set status = 'running', started_at = ?, attempt = attempt + 1
     where seq = (select seq from job where status = 'queued' and run_at <= ?
       order by priority, run_at, seq limit 1)
     returning seq, id, command, payload`,
  );
  const complete = database.prepare(
    `update job set status = 'succeeded', completed_at = ?, result = ?
     where seq = ? and status = 'running'`,
  );
  const log = database.prepare(
    `insert into job_log (job_seq, status, started_at, completed_at, result)
     values (?, 'succeeded', ?, ?, ?)`,
  );
  return {
    claim() {
      const startedAt = Date.now();
      const row = claim.get(startedAt, startedAt);
      return row === undefined ? undefined : toJob(row, startedAt);
    },
    complete(job, result) {
      const at = Date.now();
      database.exec('begin immediate');
      complete.run(at, result, job.seq);
      log.run(job.seq, job.startedAt, at, result);
      database.exec('commit');
    },
  };
}

function toJob(row: Record<string, SQLOutputValue>, startedAt: number): Job {
  const [seq, id, command, payload] = [row['seq'], row['id'], row['command'], row['payload']];
  if (typeof seq !== 'number' || typeof id !== 'string') throw new Error('not a job');
  if (typeof command !== 'string' || typeof payload !== 'string') throw new Error('not a job');
  return { seq, id, command, payload, startedAt };
}

async function run(entrypoint: string, job: Job): Promise<string> {
  const child = spawn(entrypoint, [], { stdio: 'pipe', detached: true });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (stdout += chunk));
  child.stderr.resume();
  child.stdin.end(
    `{"protocol":2,"job_id":"${job.id}","command":"${job.command}","config":{},"state":{},` +
      `"context":{},"event":${job.payload}}\n`,
  );
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0) throw new Error(`${entrypoint} ended with ${code}`);
  JSON.parse(stdout);
  return stdout;
}
