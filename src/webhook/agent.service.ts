import { toTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { makeToken } from '../base/ids.ts';
import { compact, type JsonObject } from '../base/json.ts';
import type { JobDraft } from '../job/job.ts';
import { quietUntil } from '../schedule/window.ts';
import { zoneOf } from '../schedule/zone.ts';
import type { SignalDraft } from '../signal/signal.ts';
import { createBoundedPrompt, renderPrompt } from './prompt.ts';
import type { AgentTarget } from './target.ts';
import { AGENT_KEY, NO_WAKE_HANDLER, SKIPPED_QUIET } from './agent-outcome.ts';
import { draftJob } from '../job/enqueue.service.ts';
import type { Generation } from '../engine/generation.ts';
import type { DeliveryContent } from './webhooks.ts';
import { listAllowedUsers } from './check-entry.service.ts';

type TaskTarget = Extract<AgentTarget, { mode: 'cron_task' }>;

/** The jobs of a delivery's target. */
export interface AgentWork {
  readonly jobs: readonly JobDraft[];
  /** The reason why there are none, although nothing failed. */
  readonly skipped: string | undefined;
}

/** The part of a job that depends on the mode of the webhook. */
interface AgentJobDraft {
  readonly command: 'task' | 'turn';
  readonly payload: JsonObject;
  readonly dependencyKey: string | undefined;
  readonly dueMs?: number | undefined;
}

/** Drafts the jobs that notify an agent of a delivery. Throws if the agent can't be notified. */
export async function draftAgentJobs(
  delivery: DeliveryContent,
  target: AgentTarget,
  signal: SignalDraft,
  generation: Generation,
): Promise<AgentWork> {
  const quietTo = target.mode === 'wake' ? undefined : findQuietEnd(delivery, target, generation);
  if (target.mode === 'cron_task' && quietTo !== undefined && target.quietAction === 'skip') {
    return { jobs: [], skipped: SKIPPED_QUIET };
  }
  const content = {
    prompt: toPrompt(delivery, target),
    title: delivery.title,
    hook_id: delivery.webhookId,
  };
  const drafts =
    target.mode === 'wake'
      ? requireUsers(generation).map((user) => toTurn(user, content))
      : [toTask(target, content, quietTo)];
  const jobs = await Promise.all(
    drafts.map(async (draft, index) => {
      const job = await toJob(draft, index, signal, generation);
      // A sender that waits for the result waits for the first job.
      const { jobId = job.id, isAwaited = false } = delivery;
      return index === 0 ? { ...job, id: jobId, isAwaited } : job;
    }),
  );
  return { jobs, skipped: undefined };
}

/** Finds the end of the current quiet hours. A replay ignores quiet hours. */
function findQuietEnd(
  { again }: DeliveryContent,
  { quiet, timezone }: TaskTarget,
  { config: { service } }: Generation,
): number | undefined {
  const zone = zoneOf(timezone ?? service.timezone);
  return again === undefined ? quietUntil(quiet, service.quietHours, Date.now(), zone) : undefined;
}

function toPrompt(
  { payload, webhookId, title, about }: DeliveryContent,
  { promptTemplate, instruction }: AgentTarget,
): string {
  const webhook = { id: webhookId, title, ...about };
  const rendered = renderPrompt(promptTemplate, payload, { webhook });
  return createBoundedPrompt({ rendered, instruction, nonce: makeToken() });
}

/** Drafts a new session. Missing overrides leave the default to the plugin's configuration. */
function toTask(
  { taskFolder, overrides, dependency }: TaskTarget,
  content: JsonObject,
  dueMs: number | undefined,
): AgentJobDraft {
  const { provider, model, reasoningEffort, cliParameters } = overrides;
  const payload: JsonObject = {
    ...content,
    task_folder: taskFolder,
    cli_parameters: [...cliParameters],
    ...compact({ provider, model, reasoning_effort: reasoningEffort }),
  };
  return { command: 'task', payload, dependencyKey: dependency, dueMs };
}

/** Drafts a turn of a conversation. The dependency key runs all its turns one after the other. */
function toTurn(user: string, content: JsonObject): AgentJobDraft {
  const dependencyKey = `conversation:${user}`;
  return { command: 'turn', payload: { ...content, conversation: user }, dependencyKey };
}

async function toJob(
  { command, payload, dependencyKey, dueMs }: AgentJobDraft,
  index: number,
  signal: SignalDraft,
  { catalog, config }: Generation,
): Promise<JobDraft> {
  const by = { submittedBy: 'webhook', actor: signal.source } as const;
  const submission = { plugin: config.webhooks.agent, command, payload, ...by };
  const { job } = await draftJob(submission, catalog, config.service.dedupeTtlMs, {
    mayWait: true,
  });
  return {
    ...job,
    sourceEventId: signal.id,
    idempotencyKey: `${signal.id}${AGENT_KEY}${index}`,
    hops: signal.hops,
    ...compact({ dependencyKey }),
    ...(dueMs === undefined ? {} : { due: { at: toTimestamp(dueMs) } }),
  };
}

/** Returns the users that the agent may talk to. Throws if there are none. */
function requireUsers({ catalog, config }: Generation): readonly string[] {
  const name = config.webhooks.agent;
  const plugin = catalog.plugins.get(name);
  const users = plugin === undefined ? [] : listAllowedUsers(plugin);
  if (users.length > 0) return users;
  const why =
    plugin === undefined
      ? `there is no plugin ${name}`
      : `plugins.${name}.config.allowed_users is empty`;
  throw new DuctileError('AGENT_UNAVAILABLE', `${NO_WAKE_HANDLER}: ${why}`);
}
