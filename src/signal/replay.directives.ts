import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { moment, nonBlankText } from '../base/fields.ts';
import { compact } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { suggest } from '../base/text.ts';
import { nounOf } from '../directive/directive.ts';
import type { Generation } from '../engine/generation.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { findDirectiveById } from '../operation/find-by-id.ts';
import { ANY_EVENT, isPipelineFor } from '../pipeline/language/pipeline.ts';
import { requireSignal, signalIdField } from './operations.ts';
import {
  isHandler,
  isPipeline,
  PIPELINE,
  replayFilterOf,
  replaySignals,
} from './replay.service.ts';
import { REPLAY, replayParams, resumeTarget, type ReplayChoice } from './replay.ts';
import { findStartingWebhook, senderOf, WEBHOOK_SOURCE, type SignalGroup } from './signal.ts';

export const replaySignalsDirective = defineDirective({
  type: REPLAY,
  summary: 'Replay signals through the current routes and pipelines.',
  lasting:
    'The effects of the handlers cannot be undone. Jobs that have not started can be cancelled.',
  // A replay repeats work, even for signals that only administrators may see.
  scope: 'system:rw',
  params: replayParams,
  startsWork: true,
  // The commands are known when it is executed, so any may start.
  findStarted: () => [{}],
  isRepeatable: true,
  isResumable: true,
  // A failed replay is continued once. A second request returns the directive that continues it.
  sameness: ({ resume }) => (resume === undefined ? 'each' : 'latest'),
  target: ({ signal_id: id, type, source, resume }) =>
    resume === undefined ? (id ?? `*:${type ?? '*'}:${source ?? '*'}`) : resumeTarget(resume),
  resolve: ({ ledger }, choice) => resolveResumed(choice, ledger),
  async plan({ ledger, generation }, choice) {
    refuseUnknown(choice, generation);
    const { limit, force } = choice;
    const groups = await ledger.signals.countGroups({ ...replayFilterOf(choice), limit });
    const found = sum(groups.map(({ count }) => count));
    if (choice.signal_id !== undefined && found === 0) {
      const message = `there is no signal ${choice.signal_id}`;
      throw new DuctileError('SIGNAL_NOT_FOUND', message, { place: choice.signal_id });
    }
    const isCut = choice.signal_id === undefined && found === limit;
    return [
      ...(choice.resume === undefined ? [] : [planResumed(choice.resume)]),
      `${counted(found, 'signal')} will be replayed.`,
      ...planHandlers(groups, choice, generation),
      ...(groups.some((group) => findStartingWebhook(group) !== undefined) ? [OF_WEBHOOKS] : []),
      ...(isCut ? ['These are the oldest ones, up to the limit. More signals may match.'] : []),
      force
        ? 'The new work has new idempotency keys, so handlers will repeat what they did before.'
        : 'Handlers that already succeeded or are in progress will be skipped.',
    ];
  },
  execute: replaySignals,
  operation: {
    effect: 'write',
    input: z.strictObject({
      id: signalIdField.optional(),
      type: nonBlankText().optional().describe('all signals of this type'),
      source: nonBlankText().optional().describe('all signals of this source'),
      from: moment().optional().describe('all signals of this time or later'),
      to: moment().optional().describe('all signals from before this time'),
      resume: nonBlankText()
        .optional()
        .describe(
          'the id of a failed replay, or a prefix; the replay continues after its last step',
        ),
      handler: nonBlankText()
        .optional()
        .describe(
          'only this handler: a plugin, <plugin>.<command> or pipeline:<name> (default: all)',
        ),
      force: z
        .boolean()
        .default(false)
        .describe('include handlers that already succeeded or are in progress (default: false)'),
      limit: z
        .int()
        .min(1)
        .max(limits.bulkJobsMax)
        .default(limits.bulkJobsDefault)
        .describe(`maximum number of signals (default: ${limits.bulkJobsDefault})`),
    }),
    output: z.object({
      directive_id: directiveIdField,
      signals: z.int().describe('number of signals found'),
      jobs: z.int().describe('number of new jobs'),
      runs: z.int().describe('number of new runs'),
      skipped: z
        .int()
        .describe('number of jobs and runs skipped: the work already succeeded or is in progress'),
      unhandled: z.int().describe('number of signals that nothing handles now'),
      unopened: z
        .int()
        .describe('number of signals skipped: their masked data cannot be decrypted'),
    }),
    errors: [
      'CREDENTIAL_KEY_INVALID',
      'CREDENTIAL_KEY_MISSING',
      'DIRECTIVE_NOT_FOUND',
      'FORBIDDEN',
      'INPUT_INVALID',
      'LEDGER_UNAVAILABLE',
      'SIGNAL_MASKED',
      'SIGNAL_NOT_FOUND',
      'TENANT_LIMIT',
      'TENANT_SUSPENDED',
    ],
    http: { method: 'POST', path: '/signals/replay' },
    cli: {
      positionals: ['id'],
      flags: { type: '-t, --type <type>', limit: '-n, --limit <count>' },
      examples: [
        'ductile signal replay 0199a1b2 --dry-run',
        'ductile signal replay --type order.paid --from 2026-11-15T00:00:00Z --handler mail.handle',
        'ductile signal replay 0199a1b2 --force',
        'ductile signal replay --resume 0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b',
      ],
    },
    async toParams(context, { id, resume, ...filter }) {
      const signal = id === undefined ? undefined : await requireSignal(context, id);
      const { ledger } = context.engine;
      const failed = resume === undefined ? undefined : await findDirectiveById(ledger, resume);
      return { ...filter, ...compact({ resume: failed?.id, signal_id: signal?.id }) };
    },
    toOutput(_context, { result }) {
      const count = (name: string): number => Number(result[name] ?? 0);
      return {
        signals: count('signals'),
        jobs: count('jobs'),
        runs: count('runs'),
        skipped: count('skipped'),
        unhandled: count('unhandled'),
        unopened: count('unopened'),
      };
    },
  },
});

function planResumed(directiveId: string): string {
  return `This continues the replay of directive ${directiveId} after its last step.`;
}

/** Fills in the choice of the replay that is continued, so that the record says what is meant. */
async function resolveResumed(choice: ReplayChoice, ledger: Ledger): Promise<ReplayChoice> {
  const { resume: id, signal_id: one, type, source, from, to, handler } = choice;
  if (id === undefined) return choice;
  const refuse = (message: string, hint: string): DuctileError =>
    new DuctileError('INPUT_INVALID', message, { place: 'params.resume', hint });
  if ([one, type, source, from, to, handler].some((part) => part !== undefined)) {
    throw refuse('resume does not accept a filter', 'The filter of the failed replay applies.');
  }
  const failed = await ledger.directives.find(id);
  if (failed === undefined) {
    throw new DuctileError('DIRECTIVE_NOT_FOUND', `there is no directive ${id}`, { place: id });
  }
  if (failed.type !== REPLAY || failed.status !== 'failed') {
    const message = `directive ${id} is a ${failed.type} with the status ${failed.status}`;
    throw refuse(message, 'Only a replay that failed can be resumed.');
  }
  const target = `${nounOf(REPLAY)}:${resumeTarget(id)}`;
  const [later] = await ledger.directives.list({ target, limit: 1 });
  if (later?.status === 'failed') {
    const hint = `Resume ${later.id} instead.`;
    throw refuse(`directive ${later.id} continued ${id} and failed too`, hint);
  }
  return { ...(parseJson(failed.params) as ReplayChoice), resume: id };
}

const OF_WEBHOOKS =
  'Work that webhooks start themselves is not repeated; `ductile webhook replay` does that.';

function refuseUnknown({ handler }: ReplayChoice, { routes, pipelines }: Generation): void {
  if (handler === undefined) return;
  const known = [
    ...new Set(routes.map(({ plugin, command }) => `${plugin}.${command}`)),
    ...pipelines.map(({ name }) => `${PIPELINE}${name}`),
  ];
  if (known.includes(handler) || routes.some((route) => isHandler(handler, route))) return;
  throw new DuctileError('INPUT_INVALID', `there is no handler ${handler}`, {
    place: 'handler',
    hint: suggest(handler, known, 'handlers'),
  });
}

/** Counts the most that can be started: a pipeline's condition can depend on the payload. */
function planHandlers(
  groups: readonly SignalGroup[],
  { handler, force }: ReplayChoice,
  { rules, pipelines }: Generation,
): string[] {
  const jobs = new Map<string, number>();
  const runs = new Map<string, number>();
  const add = (counts: Map<string, number>, name: string, count: number): void =>
    void counts.set(name, (counts.get(name) ?? 0) + count);
  for (const { source, type, count } of groups) {
    // A delivery's event type isn't part of the group, so every one is possible.
    const event = source.startsWith(WEBHOOK_SOURCE) ? ANY_EVENT : undefined;
    const routed = { source: senderOf(source), type, event };
    for (const target of rules.targetsOf(routed)) {
      if (handler !== undefined && !isHandler(handler, target)) continue;
      add(jobs, `${target.plugin}.${target.command}`, count);
    }
    for (const pipeline of pipelines) {
      const { name } = pipeline;
      if (handler !== undefined && !isPipeline(handler, { pipeline: name })) continue;
      if (isPipelineFor(pipeline, routed)) add(runs, name, count);
    }
  }
  if (jobs.size + runs.size === 0)
    return ['Nothing handles these signals now, so nothing will start.'];
  const most = force ? '' : 'Up to ';
  return [
    ...[...jobs].map(
      ([name, count]) => `${most}${counted(count, 'job')} of ${name} will be queued.`,
    ),
    ...[...runs].map(([name, count]) => `Up to ${counted(count, 'run')} of ${name} will start.`),
  ];
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
