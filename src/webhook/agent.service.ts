import { toTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { makeToken } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
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
import { usersOf } from './check-entry.service.ts';

type TaskTarget = Extract<AgentTarget, { mode: 'cron_task' }>;

export interface AgentWork {
  readonly jobs: readonly JobDraft[];
  /** Why there are none, although nothing went wrong. */
  readonly skipped: string | undefined;
}

interface Wish {
  readonly command: 'task' | 'turn';
  readonly payload: JsonObject;
  readonly dependencyKey: string | undefined;
  readonly dueMs?: number | undefined;
}

/** The jobs by which an agent hears of a delivery. Throws what keeps it from hearing of it. */
export async function draftAgent(
  delivered: DeliveryContent,
  target: AgentTarget,
  signal: SignalDraft,
  generation: Generation,
): Promise<AgentWork> {
  const quietTo = target.mode === 'wake' ? undefined : quietEnd(delivered, target, generation);
  if (target.mode === 'cron_task' && quietTo !== undefined && target.quietAction === 'skip') {
    return { jobs: [], skipped: SKIPPED_QUIET };
  }
  const about = {
    prompt: toPrompt(delivered, target),
    title: delivered.title,
    hook_id: delivered.webhookId,
  };
  const wishes =
    target.mode === 'wake'
      ? listUsers(generation).map((user) => toTurn(user, about))
      : [toTask(target, about, quietTo)];
  const jobs = await Promise.all(
    wishes.map(async (wish, place) => {
      const job = await toJob(wish, place, signal, generation);
      const { jobId = job.id, isAwaited = false } = delivered;
      return place === 0 ? { ...job, id: jobId, isAwaited } : job;
    }),
  );
  return { jobs, skipped: undefined };
}

/** Who asks for a replay wants it now, whatever the hour is. */
function quietEnd(
  { again }: DeliveryContent,
  { quiet, timezone }: TaskTarget,
  { config: { service } }: Generation,
): number | undefined {
  const zone = zoneOf(timezone ?? service.timezone);
  return again === undefined ? quietUntil(quiet, service.quietHours, Date.now(), zone) : undefined;
}

function toPrompt(
  delivered: DeliveryContent,
  { promptTemplate, instruction }: AgentTarget,
): string {
  const { payload, webhookId, title, about } = delivered;
  const webhook = { id: webhookId, title, ...about };
  const rendered = renderPrompt(promptTemplate, payload, { webhook });
  return createBoundedPrompt({ rendered, instruction, nonce: makeToken() });
}

/** A fresh session; what is not said is as the plugin's configuration has it. */
function toTask(
  { taskFolder, overrides, dependency }: TaskTarget,
  about: JsonObject,
  dueMs: number | undefined,
): Wish {
  const { provider, model, reasoningEffort, cliParameters } = overrides;
  const payload: JsonObject = {
    ...about,
    task_folder: taskFolder,
    cli_parameters: [...cliParameters],
    ...(provider === undefined ? {} : { provider }),
    ...(model === undefined ? {} : { model }),
    ...(reasoningEffort === undefined ? {} : { reasoning_effort: reasoningEffort }),
  };
  return { command: 'task', payload, dependencyKey: dependency, dueMs };
}

/** Turns of one conversation follow each other, whoever caused them. */
function toTurn(user: string, about: JsonObject): Wish {
  const dependencyKey = `conversation:${user}`;
  return { command: 'turn', payload: { ...about, conversation: user }, dependencyKey };
}

async function toJob(
  { command, payload, dependencyKey, dueMs }: Wish,
  place: number,
  signal: SignalDraft,
  { catalog, config }: Generation,
): Promise<JobDraft> {
  const by = { submittedBy: 'webhook', actor: signal.source } as const;
  const asked = { plugin: config.webhooks.agent, command, payload, ...by };
  const { job } = await draftJob(asked, catalog, config.service.dedupeTtlMs, { mayWait: true });
  return {
    ...job,
    sourceEventId: signal.id,
    idempotencyKey: `${signal.id}${AGENT_KEY}${place}`,
    hops: signal.hops,
    ...(dependencyKey === undefined ? {} : { dependencyKey }),
    ...(dueMs === undefined ? {} : { due: { at: toTimestamp(dueMs) } }),
  };
}

/** With whom the agent goes on talking. */
function listUsers({ catalog, config }: Generation): readonly string[] {
  const name = config.webhooks.agent;
  const plugin = catalog.plugins.get(name);
  const users = plugin === undefined ? [] : usersOf(plugin);
  if (users.length > 0) return users;
  const why =
    plugin === undefined
      ? `there is no plugin ${name}`
      : `plugins.${name}.config.allowed_users names nobody`;
  throw new DuctileError('AGENT_UNAVAILABLE', `${NO_WAKE_HANDLER}: ${why}`);
}
