import { showRow } from '../base/show-row.ts';
import * as z from 'zod';
import { nonBlankText, dueFields, toDue } from '../base/fields.ts';
import { parseStoredJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { directiveStatuses, isFinal, shownKey, type Directive } from './directive.ts';
import { RUNTIME_SOURCE } from '../signal/signal.ts';
import {
  readSeqCursor,
  readEpoch,
  writeCursor,
  cursorField,
  limitField,
} from '../operation/page.ts';
import { defineOperation } from '../operation/define.ts';
import { requestDirective } from '../operation/request-directive.ts';
import {
  directiveResultShape,
  showDirectiveResult,
  createNotWaitingError,
} from './result.service.ts';
import { findDirectiveById } from '../operation/find-by-id.ts';
import { showSignal, signalShape } from '../job/shapes.service.ts';
import { toVisibilityFilter } from '../operation/visibility.ts';
import { DuctileError } from '../base/errors.ts';
import type { Decider } from './approval.ts';
import { refuseDecision } from '../job/job.ts';
import type { Context } from '../operation/context.ts';
import { refuseDeniedDirective } from '../operation/denied-commands.ts';
import { allows } from '../access/scopes.ts';

const directiveShape = z.object({
  directive_id: z.string(),
  seq: z.int().describe('position in the order of requests'),
  type: z.string(),
  target: z.string().describe('object that it changes'),
  status: z.enum(directiveStatuses),
  params: z.unknown(),
  actor: z.string(),
  actor_role: z.string().nullable().describe('role of the actor at the time of the request'),
  scope: z.string().describe('scope that a token needs for it'),
  correlation_id: z.string().describe('id of the chain that it belongs to (default: its own id)'),
  causation_id: z.string().nullable().describe('signal or directive that caused it'),
  idempotency_key: z.string(),
  plan: z.array(z.string()).describe('planned changes, as sentences'),
  result: z.unknown(),
  error_kind: z.string().nullable().describe('error code'),
  error_message: z.string().nullable(),
  error_details: z.unknown().describe('location and other details of the error'),
  awaiting_approval: z.boolean(),
  approved_by: z.string().nullable(),
  approved_at: z.string().nullable(),
  cancelled_by: z.string().nullable(),
  run_at: z.string().nullable().describe('earliest start; null if it started at once'),
  progress: z.unknown().describe('progress, if the directive can be resumed'),
  attempt: z.int().describe('number of starts'),
  max_attempts: z.int().describe('maximum number of starts if processes die while it runs'),
  process_id: z.string(),
  requested_at: z.string(),
  started_at: z.string().nullable(),
  completed_at: z.string().nullable(),
});

export const listDirectivesOperation = defineOperation({
  name: 'directive.list',
  summary: 'List requested changes with their requester and outcome, newest first.',
  effect: 'read',
  needs: 'ledger',
  scope: 'directives:ro',
  input: z.strictObject({
    type: nonBlankText().optional().describe('only directives of this type'),
    status: z
      .array(z.enum(directiveStatuses))
      .min(1)
      .optional()
      .describe('only directives with these statuses'),
    actor: nonBlankText().optional().describe('only directives that this actor requested'),
    target: nonBlankText()
      .optional()
      .describe('only directives that change this, such as plugin:mail'),
    awaiting_approval: z
      .boolean()
      .optional()
      .describe('only directives that wait for approval, or that do not'),
    limit: limitField,
    cursor: cursorField.optional(),
  }),
  output: z.object({
    directives: z.array(directiveShape),
    next_cursor: z.string().nullable().describe('cursor of the next page; null on the last page'),
  }),
  errors: ['CURSOR_RESET', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/directives' },
  cli: {
    flags: { status: '-s, --status <states>', limit: '-n, --limit <count>' },
    examples: ['ductile directive list', 'ductile directive list --awaiting-approval'],
    watch: true,
    table: {
      rows: 'directives',
      columns: [
        ['ID', 'directive_id'],
        ['TYPE', 'type'],
        ['TARGET', 'target'],
        ['STATUS', 'status'],
        ['ACTOR', 'actor'],
        ['REQUESTED', 'requested_at'],
        ['COMPLETED', 'completed_at', 'detail'],
        ['ERROR', 'error_message'],
      ],
      empty: 'There are no such directives.',
    },
  },
  async run({ engine: { ledger } }, { cursor: after, limit: rows, ...filter }) {
    const { type, status, actor, target, awaiting_approval: awaitingApproval } = filter;
    const epoch = await readEpoch(ledger);
    const { rows: directives, next } = await ledger.directives.page({
      limit: rows,
      ...(type === undefined ? {} : { type }),
      ...(status === undefined ? {} : { status }),
      ...(actor === undefined ? {} : { actor }),
      ...(target === undefined ? {} : { target }),
      ...(awaitingApproval === undefined ? {} : { awaitingApproval }),
      ...(after === undefined ? {} : { beforeSeq: readSeqCursor('d', epoch, after) }),
    });
    return {
      directives: directives.map(showDirective),
      next_cursor: next === undefined ? null : writeCursor('d', epoch, [next]),
    };
  },
});

export const showDirectiveOperation = defineOperation({
  name: 'directive.show',
  summary: 'Show a directive and its signals.',
  effect: 'read',
  needs: 'ledger',
  scope: 'directives:ro',
  input: z.strictObject({
    id: nonBlankText().describe('id of the directive, or the start of it'),
  }),
  output: directiveShape.extend({
    signals: z.array(signalShape).describe('signals about the directive, oldest first'),
  }),
  errors: ['DIRECTIVE_NOT_FOUND', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/directives/:id' },
  cli: {
    positionals: ['id'],
    olderSpellings: ['directive inspect'],
    examples: ['ductile directive show 0199a1b2-…'],
  },
  async run({ engine: { ledger }, principal }, { id }) {
    const directive = await findDirectiveById(ledger, id);
    const signals = await ledger.signals.list({
      subjectType: 'directive',
      subjectId: directive.id,
      source: RUNTIME_SOURCE,
      ...toVisibilityFilter(principal),
      order: 'oldest',
      limit: limits.pageRowsMax,
    });
    return { ...showDirective(directive), signals: signals.map(showSignal) };
  },
});

const identifier = nonBlankText()
  .max(limits.eventTypeBytesMax)
  .refine((value) => !value.includes('\u0000'), 'must not contain U+0000');

/** Scopes of directive types: a caller without any of them can't request anything. */
const requestable = [
  'credentials:rw',
  'directives:rw',
  'jobs:rw',
  'packages:rw',
  'plugin:rw',
  'runs:rw',
  'schedules:rw',
  'system:rw',
  'tenants:rw',
  'tokens:rw',
  'webhooks:rw',
];

export const requestDirectiveOperation = defineOperation({
  name: 'directive.request',
  summary: 'Request a change by its directive type.',
  effect: 'write',
  offeredWith: requestable,
  scope: ({ engine }, { type }) =>
    engine.directives.types.find((known) => known.type === type)?.scope ?? 'directives:rw',
  input: z.strictObject({
    type: nonBlankText().describe('type of the directive, such as job.cancel'),
    params: z
      .record(z.string(), z.unknown())
      .default({})
      .describe('parameters, as a JSON object (default: {})'),
    idempotency_key: nonBlankText()
      .optional()
      .describe('repeated requests with the same key are executed once'),
    ...dueFields,
    correlation_id: identifier
      .optional()
      .describe('id of the chain that it belongs to (default: its own id)'),
    causation_id: identifier.optional().describe('signal or directive that caused it'),
  }),
  nulls: 'absent',
  output: directiveResultShape,
  errors: ['FORBIDDEN', 'IDEMPOTENCY_MISMATCH', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'STOPPING'],
  http: {
    method: 'POST',
    path: '/directives',
    isSecret: true,
    status: ({ repeated }) => (repeated === true ? 200 : 202),
    location: '/directives/:directive_id',
  },
  cli: {
    positionals: ['type'],
    examples: ['ductile directive request plugin.disable --params \'{"plugin":"mail"}\' --dry-run'],
    exitCode: ({ status }) => (status === 'failed' ? 1 : 0),
  },
  async run(context, { idempotency_key: given, ...input }) {
    const { subjectId } = context;
    const key = given ?? (subjectId === undefined ? undefined : `request:${subjectId}`);
    const keyField = key === undefined ? {} : { idempotencyKey: key };
    return showDirectiveResult(
      await requestDirective(context, { ...toRequest(input), ...keyField }),
    );
  },
  async plan(context, input) {
    return [...(await requestDirective(context, { ...toRequest(input), dryRun: true })).plan];
  },
});

function toRequest(input: {
  readonly type: string;
  readonly params: object;
  readonly correlation_id?: string | undefined;
  readonly causation_id?: string | undefined;
  readonly run_at?: string | undefined;
  readonly delay?: number | undefined;
}) {
  const { type, params, correlation_id: correlationId, causation_id: causationId } = input;
  return {
    type,
    params,
    ...toDue(input),
    ...(correlationId === undefined ? {} : { correlationId }),
    ...(causationId === undefined ? {} : { causationId }),
  };
}

function showDirective(directive: Directive): z.output<typeof directiveShape> {
  return showRow(directiveShape, directive, {
    directive_id: directive.id,
    params: parseStoredJson(directive.params),
    idempotency_key: shownKey(directive),
    plan: parseJson(directive.plan) as string[],
    result: parseStoredJson(directive.result),
    error_kind: directive.errorCode,
    error_message: directive.error,
    error_details: parseStoredJson(directive.errorDetails),
    awaiting_approval: directive.awaitingApproval && !isFinal(directive.status),
    progress: parseStoredJson(directive.progress),
  });
}

const input = z.strictObject({
  id: nonBlankText().describe('id of the directive, or the start of it'),
});
const errors = [
  'DIRECTIVE_NOT_FOUND',
  'DIRECTIVE_NOT_WAITING',
  'FORBIDDEN',
  'INPUT_INVALID',
  'LEDGER_UNAVAILABLE',
] as const;

export const approveDirectiveOperation = defineOperation({
  name: 'directive.approve',
  summary: 'Approve a directive that waits for approval.',
  effect: 'write',
  scope: 'directives:rw',
  input,
  output: directiveResultShape,
  errors,
  http: { method: 'POST', path: '/directives/:id/approve', isSecret: true },
  cli: {
    positionals: ['id'],
    examples: ['ductile directive approve 0199a1b2-…', 'ductile directive approve 0199 --dry-run'],
    exitCode: ({ status }) => (status === 'failed' ? 1 : 0),
  },
  async run(context, { id }) {
    const directive = await findApprovable(context, id);
    const decider = deciderOf(context);
    return showDirectiveResult(
      await context.engine.directives.waiting.approve(directive.id, decider),
    );
  },
  async plan(context, { id }) {
    const directive = await findApprovable(context, id);
    await context.engine.directives.waiting.requireApprover(directive, deciderOf(context));
    return parseJson(directive.plan) as string[];
  },
});

export const cancelDirectiveOperation = defineOperation({
  name: 'directive.cancel',
  summary: 'Cancel a directive that has not started: it waits for approval or for its start time.',
  effect: 'destroy',
  scope: 'directives:rw',
  input,
  output: directiveResultShape,
  errors,
  http: { method: 'POST', path: '/directives/:id/cancel', isSecret: true },
  cli: {
    positionals: ['id'],
    examples: ['ductile directive cancel 0199a1b2-…'],
  },
  async run(context, { id }) {
    const directive = await findCancellable(context, id);
    const decider = deciderOf(context);
    return showDirectiveResult(
      await context.engine.directives.waiting.cancel(directive.id, decider),
    );
  },
  async plan(context, { id }) {
    const directive = await findCancellable(context, id);
    if (directive.status !== 'requested') throw createNotWaitingError(directive);
    return [`The ${directive.type} that ${directive.actor} requested will be cancelled.`];
  },
});

function deciderOf({ principal: { actor, role } }: Context): Decider {
  return { actor, isOwner: role === 'owner' };
}

/** Finds a directive for a decider, who needs the rights for the directive itself. */
async function findApprovable(context: Context, id: string): Promise<Directive> {
  refuseDecision(context.principal, `the directive ${id}`);
  const directive = await findDirectiveById(context.engine.ledger, id);
  if (!allows(context.principal.scopes, directive.scope)) throw createForbiddenError(directive);
  await refuseDeniedDirective(context, directive.type, parseJson(directive.params) as object);
  return directive;
}

/** Finds a directive to cancel. Callers can cancel their own requests with any scope. */
async function findCancellable(context: Context, id: string): Promise<Directive> {
  const directive = await findDirectiveById(context.engine.ledger, id);
  const { actor, scopes } = context.principal;
  if (directive.actor !== actor && !allows(scopes, directive.scope))
    throw createForbiddenError(directive);
  return directive;
}

function createForbiddenError({ type, scope }: Directive): DuctileError {
  return new DuctileError('FORBIDDEN', `the token does not allow ${type}`, {
    hint: `Use a token with the scope ${scope}.`,
  });
}
