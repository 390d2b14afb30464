import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Arm } from '../frame.ts';
import { hasPeers } from '../peers.ts';
import { freePort } from '../postgres.ts';
import { findCommand, runNode, track } from '../program.ts';
import { settings } from '../settings.ts';
import { emptyDirectory } from '../work.ts';

export default [makeBullmq()];

/** Redis with appendfsync=always, which is as durable as a commit. */
function makeBullmq(): Arm {
  let redis: ChildProcess | undefined;
  let port = 0;
  return {
    name: 'BullMQ, appendfsync always',
    async available() {
      if ((await findCommand('redis-server')) === undefined) return 'Redis is not installed';
      return await hasPeers('bullmq', 'ioredis');
    },
    async prepare() {
      port = await freePort();
      redis = await startRedis(port);
    },
    async run() {
      return await runNode('bullmq', { port, jobs: settings.noopJobs });
    },
    async cleanup() {
      if (redis === undefined) return;
      const ended = once(redis, 'close');
      redis.kill('SIGTERM');
      await ended;
      redis = undefined;
    },
  };
}

async function startRedis(port: number): Promise<ChildProcess> {
  const options = {
    bind: '127.0.0.1',
    port: String(port),
    dir: await emptyDirectory('redis'),
    appendonly: 'yes',
    appendfsync: 'always',
    save: '',
  };
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  const redis = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'ignore'] });
  track(redis);
  for await (const line of createInterface(redis.stdout)) {
    if (line.includes('Ready to accept connections')) break;
  }
  redis.stdout.resume();
  if (redis.exitCode !== null) throw new Error(`redis-server ended with ${redis.exitCode}`);
  return redis;
}
