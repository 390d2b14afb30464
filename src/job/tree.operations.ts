import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { defineOperation } from '../operation/define.ts';
import { ID_LENGTH } from '../operation/find-by-id.ts';
import type { Attempt } from './attempt.ts';
import type { Job } from './job.ts';
import { requireJob, jobIdField } from './operations.ts';

/** The most ids in one statement. */
const IDS_MAX = 200;

const nodeShape = z.object({
  job_id: z.string(),
  cause_job_id: z
    .string()
    .nullable()
    .describe('the job that caused it, or the job that it retries'),
  depth: z.int().describe('0 for the first job of the chain'),
  plugin: z.string(),
  command: z.string(),
  status: z.string(),
  reason: z.string().nullable(),
  retry_of: z.string().nullable(),
  run_id: z.string().nullable().describe('the run that it is a step of'),
  step: z.string().nullable().describe("that step's id in the pipeline"),
  step_id: z.string().nullable().meta({ deprecated: true }).describe('the older name of `step`'),
  created_at: z.string(),
  completed_at: z.string().nullable(),
  last_error: z.string().nullable(),
  logged_only: z
    .boolean()
    .describe('true if the job was deleted after its retention and only its attempts are left'),
});

type TreeNode = Omit<z.output<typeof nodeShape>, 'depth'>;

export const jobTree = defineOperation({
  name: 'job.tree',
  summary: 'Show the whole chain of a job: its causes and the jobs that followed.',
  effect: 'read',
  needs: 'ledger',
  scope: 'jobs:ro',
  input: z.strictObject({ id: jobIdField }),
  output: z.object({
    root_job_id: z.string(),
    job_id: z.string().describe('the requested job'),
    jobs: z.array(nodeShape).describe('the jobs of the chain, each before the jobs that it caused'),
    complete: z.boolean().describe('false if the tree is too large and was cut off'),
  }),
  errors: ['INPUT_INVALID', 'JOB_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/job/:id/tree' },
  cli: {
    positionals: ['id'],
    examples: ['ductile job tree 0199a1b2'],
    table: {
      rows: 'jobs',
      columns: [
        ['DEPTH', 'depth'],
        ['ID', 'job_id'],
        ['PLUGIN', 'plugin'],
        ['COMMAND', 'command'],
        ['STEP', 'step'],
        ['STATUS', 'status'],
        ['RETRY OF', 'retry_of', 'detail'],
        ['CREATED', 'created_at'],
        ['COMPLETED', 'completed_at'],
        ['ERROR', 'last_error'],
      ],
      empty: 'There is no such job.',
    },
  },
  async run({ engine }, { id }) {
    const { ledger } = engine;
    const jobId = id.length === ID_LENGTH ? id : (await requireJob({ engine }, id)).id;
    const node = await findNode(ledger, jobId);
    if (node === undefined) {
      throw new DuctileError('JOB_NOT_FOUND', `there is no job ${jobId}`, { place: jobId });
    }
    const root = await findRoot(ledger, node);
    const { nodes, complete } = await readTree(ledger, root);
    return { root_job_id: root.job_id, job_id: jobId, jobs: sortNodes(root, nodes), complete };
  },
});

/** Finds the first job of the chain. */
async function findRoot(ledger: Ledger, from: TreeNode): Promise<TreeNode> {
  const seen = new Set<string>();
  let node = from;
  while (node.cause_job_id !== null && !seen.has(node.cause_job_id)) {
    seen.add(node.cause_job_id);
    const above = await findNode(ledger, node.cause_job_id);
    if (above === undefined || seen.size > limits.treeDepthMax) break;
    node = above;
  }
  return node;
}

/** Reads the tree level by level, so that a wide tree costs few statements. */
async function readTree(
  ledger: Ledger,
  root: TreeNode,
): Promise<{ nodes: Map<string, TreeNode>; complete: boolean }> {
  const nodes = new Map([[root.job_id, root]]);
  let level = [root.job_id];
  for (let depth = 0; level.length > 0; depth += 1) {
    const next: string[] = [];
    for (let at = 0; at < level.length; at += IDS_MAX) {
      for (const node of await listFollowers(ledger, level.slice(at, at + IDS_MAX))) {
        if (nodes.has(node.job_id)) continue;
        nodes.set(node.job_id, node);
        next.push(node.job_id);
      }
      if (nodes.size >= limits.pageRowsMax) return { nodes, complete: false };
    }
    if (depth >= limits.treeDepthMax) return { nodes, complete: next.length === 0 };
    level = next;
  }
  return { nodes, complete: true };
}

/** Lists the jobs that these jobs caused, and their retries, even those past their retention. */
async function listFollowers(ledger: Ledger, ids: readonly string[]): Promise<TreeNode[]> {
  const page = { limit: limits.pageRowsMax };
  const [jobs, attempts] = await Promise.all([
    ledger.jobs.list({ causedBy: ids, order: 'oldest', ...page }),
    ledger.attempts.list({ parentJobIds: ids, ...page }),
  ]);
  const known = new Set(jobs.map(({ id }) => id));
  // A retry that has a row is shown by its row, not by its attempts.
  const logged = lastOfEach(attempts.filter(({ jobId: id }) => !known.has(id)));
  const rows = await Promise.all(logged.map(({ jobId: id }) => ledger.jobs.find(id)));
  const gone = logged.filter((_, index) => rows[index] === undefined);
  return [...jobs.map(fromJob), ...gone.map(fromAttempt)];
}

async function findNode(ledger: Ledger, id: string): Promise<TreeNode | undefined> {
  const job = await ledger.jobs.find(id);
  if (job !== undefined) return fromJob(job);
  const last = (await ledger.attempts.listByJob([id])).at(-1);
  return last === undefined ? undefined : fromAttempt(last);
}

function lastOfEach(attempts: readonly Attempt[]): Attempt[] {
  const last = new Map<string, Attempt>();
  for (const attempt of attempts) {
    const other = last.get(attempt.jobId);
    if (other === undefined || other.attempt < attempt.attempt) last.set(attempt.jobId, attempt);
  }
  return [...last.values()];
}

/** Lists each job before its followers, oldest first. */
function sortNodes(
  root: TreeNode,
  nodes: ReadonlyMap<string, TreeNode>,
): z.output<typeof nodeShape>[] {
  const below = new Map<string, TreeNode[]>();
  for (const node of nodes.values()) {
    if (node === root || node.cause_job_id === null) continue;
    below.set(node.cause_job_id, [...(below.get(node.cause_job_id) ?? []), node]);
  }
  const ordered: z.output<typeof nodeShape>[] = [];
  const visit = (node: TreeNode, depth: number): void => {
    ordered.push({ ...node, depth });
    const followers = below.get(node.job_id) ?? [];
    followers.sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
    for (const follower of followers) visit(follower, depth + 1);
  };
  visit(root, 0);
  return ordered;
}

function fromJob(job: Job): TreeNode {
  return {
    job_id: job.id,
    cause_job_id: job.retryOf ?? job.parentJobId,
    plugin: job.plugin,
    command: job.command,
    status: job.status,
    reason: job.reason,
    retry_of: job.retryOf,
    run_id: job.runId,
    step: job.stepId,
    step_id: job.stepId,
    created_at: job.createdAt,
    completed_at: job.completedAt,
    last_error: job.lastError,
    logged_only: false,
  };
}

function fromAttempt(attempt: Attempt): TreeNode {
  return {
    job_id: attempt.jobId,
    cause_job_id: attempt.parentJobId,
    plugin: attempt.plugin,
    command: attempt.command,
    status: attempt.status,
    reason: attempt.cause === 'ok' ? null : attempt.cause,
    retry_of: null,
    run_id: null,
    step: null,
    step_id: null,
    created_at: attempt.createdAt,
    completed_at: attempt.completedAt,
    last_error: attempt.error,
    logged_only: true,
  };
}
