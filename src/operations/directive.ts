import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { text } from '../base/fields.ts';
import { directiveStatuses, shownKey, type Directive } from '../directive/directive.ts';
import { continueAfter, epochOf, writeCursor } from './cursor.ts';
import { defineOperation } from './define.ts';
import { askDirective, planDirective } from './direct.ts';
import { cursor, limit } from './job.ts';
import { parseStored, showSignal, signalShape } from './shapes.ts';

export const directiveShape = z.object({
  directive_id: z.string(),
  seq: z.int().describe('the order of requests, and the cursor of lists'),
  type: z.string(),
  target: z.string().describe('what it changes'),
  status: z.enum(directiveStatuses),
  params: z.unknown(),
  actor: z.string(),
  scope: z.string().describe('what it asks of a token'),
  idempotency_key: z.string(),
  plan: z.array(z.string()).describe('what it was going to do'),
  result: z.unknown(),
  error_code: z.string().nullable(),
  error: z.string().nullable(),
  process_id: z.string(),
  requested_at: z.string(),
  started_at: z.string().nullable(),
  completed_at: z.string().nullable(),
});

export const listDirectives = defineOperation({
  name: 'directive.list',
  summary: 'List what was changed, by whom and how it ended, newest first.',
  effect: 'read',
  needs: 'ledger',
  scope: 'directives:ro',
  input: z.strictObject({
    type: text().optional().describe('only directives of this type'),
    status: z.array(z.enum(directiveStatuses)).min(1).optional().describe('only in these states'),
    actor: text().optional().describe('only what this one asked for'),
    target: text().optional().describe('only what changed this, such as plugin:mail'),
    limit,
    cursor: cursor.optional(),
  }),
  output: z.object({
    directives: z.array(directiveShape),
    next_cursor: z.string().nullable().describe('of the next page; null at the end'),
  }),
  errors: ['CURSOR_RESET', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/directives' },
  cli: {
    flags: { status: '-s, --status <states>', limit: '-n, --limit <count>' },
    examples: ['ductile directive list', 'ductile directive list --type job.cancel'],
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
        ['ERROR', 'error'],
      ],
      empty: 'There are no such directives.',
    },
  },
  async run({ engine: { ledger } }, { cursor: after, type, status, actor, target, limit: rows }) {
    const epoch = await epochOf(ledger);
    const directives = await ledger.directives({
      limit: rows,
      ...(type === undefined ? {} : { type }),
      ...(status === undefined ? {} : { status }),
      ...(actor === undefined ? {} : { actor }),
      ...(target === undefined ? {} : { target }),
      ...(after === undefined ? {} : { beforeSeq: continueAfter('d', epoch, after) }),
    });
    const last = directives.length === rows ? directives.at(-1) : undefined;
    return {
      directives: directives.map(showDirective),
      next_cursor: last === undefined ? null : writeCursor('d', epoch, [last.seq]),
    };
  },
});

export const inspectDirective = defineOperation({
  name: 'directive.inspect',
  summary: 'Show one directive with the signal of its end.',
  effect: 'read',
  needs: 'ledger',
  scope: 'directives:ro',
  input: z.strictObject({ id: text().describe('the id of the directive') }),
  output: directiveShape.extend({ signal: signalShape.nullable() }),
  errors: ['DIRECTIVE_NOT_FOUND', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/directives/:id' },
  cli: { positionals: ['id'], examples: ['ductile directive inspect 0199a1b2-…'] },
  async run({ engine: { ledger } }, { id }) {
    const directive = await ledger.directive(id);
    if (directive === undefined) {
      throw new DuctileError('DIRECTIVE_NOT_FOUND', `there is no directive ${id}`, { place: id });
    }
    const [signal] = await ledger.signals({ id: directive.signalId, limit: 1 });
    return {
      ...showDirective(directive),
      signal: signal === undefined ? null : showSignal(signal),
    };
  },
});

export const requestDirective = defineOperation({
  name: 'directive.request',
  summary: 'Request a change of the system by its type.',
  effect: 'write',
  scope: ({ engine }, { type }) =>
    engine.directives.types.find((known) => known.type === type)?.scope ?? 'directives:rw',
  input: z.strictObject({
    type: text().describe('what is to be done, such as job.cancel'),
    params: z.record(z.string(), z.unknown()).default({}).describe('a JSON object'),
    idempotency_key: text().optional().describe('asking again with the same key is asking once'),
  }),
  output: z.object({
    directive_id: z.string(),
    status: z.enum(directiveStatuses),
    plan: z.array(z.string()),
    result: z.unknown(),
    error_code: z.string().nullable(),
    error: z.string().nullable(),
    repeated: z.boolean().describe('it had been asked for before; this is what became of it'),
  }),
  errors: ['IDEMPOTENCY_MISMATCH', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'STOPPING'],
  http: {
    method: 'POST',
    path: '/directives',
    isSecret: true,
    status: ({ repeated }) => (repeated === true ? 200 : 202),
  },
  cli: {
    positionals: ['type'],
    examples: ['ductile directive request plugin.disable --params \'{"plugin":"mail"}\' --dry-run'],
    exitCode: ({ status }) => (status === 'failed' ? 1 : 0),
  },
  async run(context, { type, params, idempotency_key: given }) {
    const { subjectId } = context;
    const key = given ?? (subjectId === undefined ? undefined : `request:${subjectId}`);
    const answer = await askDirective(context, {
      type,
      params,
      ...(key === undefined ? {} : { idempotencyKey: key }),
    });
    return {
      directive_id: answer.id ?? '',
      status: answer.status,
      plan: [...answer.plan],
      result: answer.result,
      error_code: answer.errorCode,
      error: answer.error,
      repeated: answer.repeated,
    };
  },
  plan: (context, { type, params }) => planDirective(context, type, params),
});

function showDirective(directive: Directive): z.output<typeof directiveShape> {
  return {
    directive_id: directive.id,
    seq: directive.seq,
    type: directive.type,
    target: directive.target,
    status: directive.status,
    params: parseStored(directive.params),
    actor: directive.actor,
    scope: directive.scope,
    idempotency_key: shownKey(directive),
    plan: JSON.parse(directive.plan) as string[],
    result: parseStored(directive.result),
    error_code: directive.errorCode,
    error: directive.error,
    process_id: directive.processId,
    requested_at: directive.requestedAt,
    started_at: directive.startedAt,
    completed_at: directive.completedAt,
  };
}
