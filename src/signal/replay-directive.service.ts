import { DuctileError } from '../base/errors.ts';
import { parseJson } from '../base/parse-json.ts';
import { suggest } from '../config/nearest.ts';
import { replayType, resumeTarget, type ReplayChoice } from './replay-directives.ts';
import { nounOf } from '../directive/type.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { SignalGroup } from './types.ts';
import { isFor, ANY_EVENT } from '../pipeline/language/pipeline.ts';
import { WEBHOOK_SOURCE, senderOf } from './signal.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';
import type { Generation } from '../engine/generation.ts';
import { hookBehind } from '../webhook/draft.service.ts';
import {
  isHandler,
  isPipeline,
  PIPELINE,
  replay,
  replayFilterOf,
  type ReplaySeams,
} from './replay.service.ts';

export function replayDirective(seams: ReplaySeams): DirectiveDefinition<ReplayChoice> {
  const { ledger, current } = seams;
  return {
    ...replayType,
    resolve: (choice) => resolveResumed(choice, ledger),
    async plan(choice) {
      refuseUnknown(choice, current());
      const { limit, force } = choice;
      const groups = await ledger.signalGroups({ ...replayFilterOf(choice), limit });
      const found = sum(groups.map(({ count }) => count));
      if (choice.signal_id !== undefined && found === 0) {
        const message = `there is no signal ${choice.signal_id}`;
        throw new DuctileError('SIGNAL_NOT_FOUND', message, { place: choice.signal_id });
      }
      const isCut = choice.signal_id === undefined && found === limit;
      return [
        ...(choice.resume === undefined ? [] : [planResumed(choice.resume)]),
        `${counted(found, 'signal')} would be handled again.`,
        ...planHandlers(groups, choice, current()),
        ...(groups.some((group) => hookBehind(group) !== undefined) ? [OF_WEBHOOKS] : []),
        ...(isCut ? ['These are the oldest, as many as the limit allows; more may fit.'] : []),
        force
          ? 'What this starts has new idempotency keys: whatever the handlers did, they do again.'
          : 'What a handler has done well for a signal, or is about to do, is left out.',
      ];
    },
    execute: (choice, asked) => replay(seams, choice, asked),
  };
}

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
    throw refuse('resume takes no filter', 'The replay that it continues has one.');
  }
  const failed = await ledger.directive(id);
  if (failed === undefined) {
    throw new DuctileError('DIRECTIVE_NOT_FOUND', `there is no directive ${id}`, { place: id });
  }
  if (failed.type !== replayType.type || failed.status !== 'failed') {
    const message = `directive ${id} is a ${failed.type} that is ${failed.status}`;
    throw refuse(message, 'Only a replay that failed can be resumed.');
  }
  const target = `${nounOf(replayType.type)}:${resumeTarget(id)}`;
  const [later] = await ledger.directives({ target, limit: 1 });
  if (later?.status === 'failed') {
    const hint = `Resume ${later.id} instead.`;
    throw refuse(`directive ${later.id} continued ${id} and failed too`, hint);
  }
  return { ...(parseJson(failed.params) as ReplayChoice), resume: id };
}

const OF_WEBHOOKS =
  'What webhooks start themselves is not among it: `ductile webhook replay` does that again.';

function refuseUnknown({ handler }: ReplayChoice, { routes, pipelines }: Generation): void {
  if (handler === undefined) return;
  const known = [
    ...new Set(routes.map(({ plugin, command }) => `${plugin}.${command}`)),
    ...pipelines.map(({ name }) => `${PIPELINE}${name}`),
  ];
  if (known.includes(handler) || routes.some((route) => isHandler(handler, route))) return;
  throw new DuctileError('INPUT_INVALID', `nothing that handles signals is called ${handler}`, {
    place: 'handler',
    hint: suggest(handler, known, 'handlers'),
  });
}

/** Which pipelines begin may hang on what a signal says, so all of it is the most there can be. */
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
      if (isFor(pipeline, routed)) add(runs, name, count);
    }
  }
  if (jobs.size + runs.size === 0)
    return ['Nothing handles them now, so nothing would be started.'];
  const most = force ? '' : 'Up to ';
  return [
    ...[...jobs].map(
      ([name, count]) => `${most}${counted(count, 'job')} of ${name} would be queued.`,
    ),
    ...[...runs].map(([name, count]) => `Up to ${counted(count, 'run')} of ${name} would begin.`),
  ];
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
