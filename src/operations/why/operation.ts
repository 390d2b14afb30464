import * as z from 'zod';
import { DuctileError } from '../../base/errors.ts';
import { hookNotFound } from '../../engine/hook-find.ts';
import { isDeclared, scheduleNotFound, type ScheduleName } from '../../engine/schedule-find.ts';
import type { Context } from '../context.ts';
import { defineOperation } from '../define.ts';
import { findJob } from '../job.ts';
import { findRun } from '../run-list.ts';
import { allows } from '../scopes.ts';
import { findSignal } from '../signal.ts';
import { findDelivery } from '../webhook-delivery.ts';
import { explanationShape, kinds, type Kind } from './answer.ts';
import { explain, type Found } from './explain.ts';

/** What a token must allow to ask about each. */
const scopes: Readonly<Record<Kind, string>> = {
  job: 'jobs:ro',
  run: 'runs:ro',
  schedule: 'schedules:ro',
  webhook: 'webhooks:ro',
  signal: 'events:ro',
  directive: 'directives:ro',
  delivery: 'webhooks:ro',
};

const ID_PATTERN = /^[0-9a-f-]{4,36}$/;

export const explainWhy = defineOperation({
  name: 'why.explain',
  summary:
    'Say why something ran, did not run, or waits; when it will move, and what would move it.',
  effect: 'read',
  scope: ({ principal }, { kind }) =>
    scopes[kind === 'any' ? (seenBy(principal)[0] ?? 'job') : kind],
  input: z.strictObject({
    id: z
      .string()
      .trim()
      .min(1)
      .max(200)
      .describe('an id or its beginning, the name of a webhook, or <plugin>/<schedule>'),
    kind: z
      .enum([...kinds, 'any'])
      .default('any')
      .describe('what it is; found out unless told'),
  }),
  output: explanationShape,
  errors: [
    'SUBJECT_NOT_FOUND',
    'DELIVERY_NOT_FOUND',
    'DIRECTIVE_NOT_FOUND',
    'INPUT_INVALID',
    'JOB_NOT_FOUND',
    'LEDGER_UNAVAILABLE',
    'RUN_NOT_FOUND',
    'SCHEDULE_NOT_FOUND',
    'SIGNAL_NOT_FOUND',
    'WEBHOOK_NOT_FOUND',
  ],
  http: { method: 'GET', path: '/why/:kind/:id' },
  cli: {
    positionals: ['id'],
    isDefault: true,
    defaults: { kind: 'any' },
    examples: [
      'ductile why 0199a1b2',
      'ductile why mail/nightly',
      'ductile why deploys --kind webhook',
    ],
    watch: true,
  },
  async run(context, { kind, id }) {
    return await explain(context, await find(context, kind, id));
  },
});

async function find(context: Context, kind: Kind | 'any', id: string): Promise<Found> {
  if (kind !== 'any') return await finders[kind](context, id);
  const seen = seenBy(context.principal).filter((each) => mayBe(each, id));
  for (const one of seen) {
    const found = await finders[one](context, id).catch(ignoreMissing);
    if (found !== undefined) return found;
  }
  const { config, ledger } = context.engine;
  if (seen.includes('schedule') && isDeclared(scheduleIn(id), config)) {
    throw await scheduleNotFound(scheduleIn(id), config, ledger);
  }
  throw new DuctileError('SUBJECT_NOT_FOUND', `nothing is called ${id}`, { place: 'id' });
}

function seenBy({ scopes: granted }: Context['principal']): Kind[] {
  return kinds.filter((one) => allows(granted, scopes[one]));
}

/** What cannot be the name of such a thing is not looked for. */
function mayBe(kind: Kind, id: string): boolean {
  if (kind === 'schedule') return true;
  if (kind === 'webhook') return !id.includes('/');
  return ID_PATTERN.test(id.toLowerCase());
}

/** What begins like several things is an error that says so; what is not there may be something else. */
function ignoreMissing(error: unknown): undefined {
  if (error instanceof DuctileError && error.code.endsWith('_NOT_FOUND')) return undefined;
  throw error;
}

type Finder = (context: Context, id: string) => Promise<Found>;

const finders: Readonly<Record<Kind, Finder>> = {
  job: async (context, id) => ({ kind: 'job', job: await findJob(context, id.toLowerCase()) }),
  run: async (context, id) => ({ kind: 'run', run: await findRun(context, id.toLowerCase()) }),
  signal: async (context, id) => ({
    kind: 'signal',
    signal: await findSignal(context, id.toLowerCase()),
  }),
  delivery: async (context, id) => ({
    kind: 'delivery',
    delivery: await findDelivery(context, id.toLowerCase()),
  }),
  async directive({ engine: { ledger } }, id) {
    const directive = await ledger.directive(id.toLowerCase());
    if (directive !== undefined) return { kind: 'directive', directive };
    throw new DuctileError('DIRECTIVE_NOT_FOUND', `there is no directive ${id}`, { place: 'id' });
  },
  async webhook({ engine: { ledger } }, id) {
    const row = await ledger.webhook(id);
    if (row !== undefined) return { kind: 'webhook', row };
    throw await hookNotFound(id, ledger);
  },
  async schedule({ engine: { ledger, config } }, id) {
    const name = scheduleIn(id);
    const [row] = await ledger.schedules({ ...name, limit: 1 });
    if (row !== undefined) return { kind: 'schedule', row };
    throw await scheduleNotFound(name, config, ledger);
  },
};

function scheduleIn(id: string): ScheduleName {
  const at = id.indexOf('/');
  if (at === -1) return { plugin: id, scheduleId: 'default' };
  return { plugin: id.slice(0, at), scheduleId: id.slice(at + 1) };
}
