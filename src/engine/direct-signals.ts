import { fromTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import type { Json, JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { suggest } from '../config/nearest.ts';
import { replayType, type ReplayChoice } from '../directive/signal.ts';
import type { JobDraft } from '../job/job.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Followers, RunDraft, RunNews } from '../ledger/runs.ts';
import type { SignalFilter, SignalGroup } from '../ledger/signals.ts';
import { RUNTIME_SOURCE, senderOf, type Signal } from '../signal/signal.ts';
import type { Asked, DirectiveDefinition } from './directive-definition.ts';
import { followSignal } from './follow-runtime.ts';
import type { Generation } from './generation.ts';

export interface SignalSeams {
  readonly ledger: Ledger;
  readonly current: () => Generation;
  /** Jobs were queued, or runs have begun. */
  readonly onNews: (news: RunNews) => void;
}

export function replayDirective(seams: SignalSeams): DirectiveDefinition<ReplayChoice> {
  const { ledger, current } = seams;
  return {
    ...replayType,
    async plan(choice) {
      refuseUnknown(choice, current());
      const { limit } = choice;
      const groups = await ledger.signalGroups({ ...filterOf(choice), limit });
      const found = sum(groups.map(({ count }) => count));
      if (choice.signal_id !== undefined && found === 0) {
        const message = `there is no signal ${choice.signal_id}`;
        throw new DuctileError('SIGNAL_NOT_FOUND', message, { place: choice.signal_id });
      }
      const isCut = choice.signal_id === undefined && found === limit;
      return [
        `${counted(found, 'signal')} would be handled again.`,
        ...planHandlers(groups, choice, current()),
        ...(isCut ? ['These are the oldest, as many as the limit allows; more may fit.'] : []),
        'What this starts has new idempotency keys: whatever the handlers did, they do again.',
      ];
    },
    execute: (choice, asked) => replay(seams, choice, asked),
  };
}

/** From the oldest to what was the newest when it began, some at a time, each step one commit. */
async function replay(
  { ledger, current, onNews }: SignalSeams,
  choice: ReplayChoice,
  asked: Asked,
): Promise<JsonObject> {
  const [newest] = await ledger.signals({ limit: 1 });
  const counts = { signals: 0, jobs: 0, runs: 0, unhandled: 0 };
  let cursor = 0;
  while (counts.signals < choice.limit) {
    if (asked.signal.aborted) {
      throw new DuctileError('STOPPING', `stopped after ${counts.signals} signals`);
    }
    const signals = await ledger.signals({
      ...filterOf(choice),
      order: 'oldest',
      beforeSeq: cursor,
      upToSeq: newest?.seq ?? 0,
      limit: Math.min(limits.bulkStepJobs, choice.limit - counts.signals),
    });
    const last = signals.at(-1);
    if (last === undefined) break;
    cursor = last.seq;
    const followed = signals.map((signal) => followAgain(signal, choice, asked, current()));
    const jobs = followed.flatMap((one) => one.jobs);
    const runs = followed.flatMap((one) => one.runs);
    if (jobs.length + runs.length > 0) {
      const news = await ledger.startRuns({ jobs, runs });
      onNews({ ...news, queued: news.queued || jobs.length > 0 });
    }
    counts.signals += signals.length;
    counts.jobs += jobs.length;
    counts.runs += runs.length;
    counts.unhandled += followed.filter((one) => one.jobs.length + one.runs.length === 0).length;
  }
  return counts;
}

function followAgain(
  signal: Signal,
  { handler }: ReplayChoice,
  { actor, directiveId }: Asked,
  { rules }: Generation,
): Followers {
  const { id, type, source, hops } = signal;
  if (hops > rules.hopsMax) return { jobs: [], runs: [] };
  const payload = JSON.parse(signal.data) as Json;
  const draft = { id, type, source, hops };
  const { jobs, runs } = followSignal(draft, { payload, context: {} }, rules, {
    submittedBy: 'replay',
    actor,
    runtimeCaused: source === RUNTIME_SOURCE,
    key: `replay:${directiveId}:${id}`,
    atMs: fromTimestamp(signal.occurredAt),
  });
  if (handler === undefined) return { jobs, runs };
  return {
    jobs: jobs.filter((job) => isHandler(handler, job)),
    runs: runs.filter((run) => isPipeline(handler, run)),
  };
}

function isHandler(
  handler: string,
  { plugin, command }: Pick<JobDraft, 'plugin' | 'command'>,
): boolean {
  return handler === plugin || handler === `${plugin}.${command}`;
}

function isPipeline(handler: string, { pipeline }: Pick<RunDraft, 'pipeline'>): boolean {
  return handler === `${PIPELINE}${pipeline}`;
}

const PIPELINE = 'pipeline:';

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

/** Which pipelines begin may hang on what a signal says, so of those it is the most there can be. */
function planHandlers(
  groups: readonly SignalGroup[],
  { handler }: ReplayChoice,
  { rules, pipelines }: Generation,
): string[] {
  const jobs = new Map<string, number>();
  const runs = new Map<string, number>();
  const add = (counts: Map<string, number>, name: string, count: number): void =>
    void counts.set(name, (counts.get(name) ?? 0) + count);
  for (const { source, type, count } of groups) {
    for (const target of rules.targetsOf({ source: senderOf(source), type })) {
      if (handler !== undefined && !isHandler(handler, target)) continue;
      add(jobs, `${target.plugin}.${target.command}`, count);
    }
    for (const { name, on, fromPlugin = senderOf(source) } of pipelines) {
      if (handler !== undefined && !isPipeline(handler, { pipeline: name })) continue;
      if (on === type && fromPlugin === senderOf(source)) add(runs, name, count);
    }
  }
  if (jobs.size + runs.size === 0)
    return ['Nothing handles them now, so nothing would be started.'];
  return [
    ...[...jobs].map(([name, count]) => `${counted(count, 'job')} of ${name} would be queued.`),
    ...[...runs].map(([name, count]) => `Up to ${counted(count, 'run')} of ${name} would begin.`),
  ];
}

function filterOf(choice: ReplayChoice): Omit<SignalFilter, 'limit'> {
  const { signal_id: id, type, source, from, to } = choice;
  return {
    ...(id === undefined ? {} : { id }),
    ...(type === undefined ? {} : { type }),
    ...(source === undefined ? {} : { source }),
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
  };
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
