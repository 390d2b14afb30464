import * as z from 'zod';
import type { Ledger } from '../ledger/ledger.ts';
import type { Context } from '../operation/context.ts';
import { defineDirective } from '../operation/define-directive.ts';
import { switchPause } from '../job/plugin-state.sql.ts';

/** The state of the service process that responds. */
export const serviceStateShape = z.object({
  process_id: z.string(),
  state: z.enum(['stopped', 'starting', 'running', 'paused', 'degraded', 'stopping']),
  detail: z.string().nullable().describe('why it is degraded'),
});

export function showServiceState({ engine }: Context): z.output<typeof serviceStateShape> {
  const { processId, state, detail } = engine.status();
  return { process_id: processId, state, detail: detail ?? null };
}

const common = {
  scope: 'system:rw',
  params: z.strictObject({}),
  isForHandlers: true,
  sameness: () => 'toggle' as const,
  target: () => '',
} as const;

const commonOperation = {
  effect: 'write',
  output: serviceStateShape,
  errors: ['LEDGER_UNAVAILABLE'],
  toOutput: showServiceState,
} as const;

export const pauseSystemDirective = defineDirective({
  ...common,
  type: 'system.pause',
  summary: 'Start no more jobs; what is running goes on, new jobs are still accepted.',
  async plan({ ledger, services: { dispatcher } }) {
    if (await isPaused(ledger)) return ['It is paused already; nothing would change.'];
    return [`No more jobs would start; ${dispatcher.running.length} running would go on.`];
  },
  prepare: () => ({ work: (tx) => switchPause(tx, true) }),
  after: ({ services: { pause } }) => pause.apply(),
  operation: {
    ...commonOperation,
    http: { method: 'POST', path: '/system/pause' },
    cli: { examples: ['ductile system pause'] },
  },
});

export const resumeSystemDirective = defineDirective({
  ...common,
  type: 'system.resume',
  summary: 'Start jobs again after a pause.',
  async plan({ ledger }) {
    if (!(await isPaused(ledger))) return ['It is not paused; nothing would change.'];
    const { ready } = await ledger.jobs.countQueue();
    return [`Jobs would start again; ${ready} are ready.`];
  },
  prepare: () => ({ work: (tx) => switchPause(tx, false) }),
  after: ({ services: { pause } }) => pause.apply(),
  operation: {
    ...commonOperation,
    http: { method: 'POST', path: '/system/resume' },
    cli: { examples: ['ductile system resume'] },
  },
});

async function isPaused(ledger: Ledger): Promise<boolean> {
  return (await ledger.meta.read('paused')) === '1';
}
