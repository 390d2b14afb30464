import type { Arm } from '../frame.ts';
import { hasPeers } from '../peers.ts';
import { dropSchema, postgresUrl } from '../postgres.ts';
import { runNode } from '../program.ts';
import { settings } from '../settings.ts';

const { noopJobs, enqueueJobs, workflowJobs } = settings;

export default [
  peerArm('graphile-worker, batched', 'graphile-worker', 'graphile', 'work', noopJobs),
  peerArm('graphile-worker, enqueue', 'graphile-worker', 'graphile', 'enqueue', enqueueJobs),
  peerArm('graphile-worker, idle', 'graphile-worker', 'graphile', 'idle', 0),
  peerArm('pg-boss, fetch and complete', 'pg-boss', 'pg-boss', 'fetch', noopJobs),
  peerArm('pg-boss, work()', 'pg-boss', 'pg-boss', 'work', noopJobs),
  peerArm('pg-boss, enqueue', 'pg-boss', 'pg-boss', 'enqueue', enqueueJobs),
  peerArm('DBOS queue', '@dbos-inc/dbos-sdk', 'dbos', 'work', workflowJobs),
];

function peerArm(name: string, peer: string, program: string, test: string, jobs: number): Arm {
  const schema = `ductile_bench_${program.replace('-', '_')}`;
  return {
    name,
    async available() {
      return await hasPeers(peer);
    },
    async prepare() {
      await postgresUrl();
    },
    async run() {
      await dropSchema(schema);
      return await runNode(program, { test, url: await postgresUrl(), schema, jobs });
    },
    async cleanup() {
      await dropSchema(schema);
    },
  };
}
