import { limits } from '../../base/limits.ts';
import type { HaltedRun, OpenQuestion } from '../types.ts';
import { type Check, type CheckContext, showText } from '../check.service.ts';
import {
  findingId,
  type LiveFinding,
  groupUnacknowledged,
  toFindingWindow,
  formatAge,
} from '../finding.ts';
import { fromTimestamp, type Timestamp } from '../../base/clock.ts';
import { formatDuration } from '../../base/quantity.ts';
import type { Run } from '../../pipeline/run/run.ts';
import { overlongAfterMs, toUsualDuration, type UsualDuration } from '../usual-duration.service.ts';
import type { Directive } from '../../directive/directive.ts';

const KIND = 'run_halted';

/** Finds pipelines with halted runs that weren't revived, one finding for each pipeline. */
export const findHaltedRuns: Check = async (context) => {
  const runs = await context.ledger.runs.listHalted(toFindingWindow(context.now));
  const byPipeline = groupUnacknowledged(runs, KIND, ({ pipeline }) => pipeline, context);
  const groups = byPipeline.slice(0, limits.findingGroupsMax);
  return await Promise.all(
    groups.map(([pipeline, halted]) => describeHalted(pipeline, halted, context)),
  );
};

async function describeHalted(
  pipeline: string,
  halted: readonly HaltedRun[],
  { ledger }: CheckContext,
): Promise<LiveFinding> {
  const [newest] = halted;
  const id = newest?.id ?? '';
  const count = halted.length;
  const text = newest?.haltMessage ?? newest?.haltReason ?? null;
  const reason = await showText(ledger, text, { runId: id });
  const runs = count === 1 ? 'A run' : `${count} runs`;
  return {
    kind: KIND,
    key: pipeline,
    severity: 'error',
    category: 'pipelines',
    impact: 'item',
    message: `${runs} of the pipeline ${pipeline} halted.`,
    evidence: `run ${id} halted at ${newest?.haltedAtStep ?? 'its start'}: ${reason}`,
    fix: 'Fix the cause, then revive the run. It continues at the step that failed.',
    commands: [
      `ductile run revive ${id}`,
      `ductile incident acknowledge ${findingId({ kind: KIND, key: pipeline })}`,
    ],
    why: id,
    since: halted.at(-1)?.completedAt,
    count,
    detail: { pipeline, run_ids: halted.slice(0, limits.findingIdsMax).map((run) => run.id) },
  };
}

/** Finds runs that keep others waiting for a concurrency key far longer than their pipeline usually takes. */
export const findHeldKeys: Check = async (context) => {
  const { ledger } = context;
  const { rows } = await ledger.runs.page({ status: ['queued'], limit: limits.findingRowsMax });
  const waiting = rows.filter(
    ({ concurrencyKey, dueAt }) => concurrencyKey !== null && dueAt === null,
  );
  const byKey = [...Map.groupBy(waiting, ({ concurrencyKey }) => concurrencyKey ?? '')];
  const found = await Promise.all(
    byKey.slice(0, limits.findingGroupsMax).map(([key, runs]) => checkKey(key, runs, context)),
  );
  return found.flat();
};

async function checkKey(
  concurrencyKey: string,
  waiting: readonly Run[],
  { ledger, now }: CheckContext,
): Promise<LiveFinding[]> {
  const open = await ledger.runs.list({ concurrencyKey, limit: limits.findingRowsMax });
  const holders = open.filter(({ status }) => status === 'running');
  const [holder] = holders.toSorted((a, b) => (startOf(a) < startOf(b) ? -1 : 1));
  if (holder === undefined) return [];
  const { pipeline } = holder;
  const ended = await ledger.runs.page({
    pipeline,
    status: ['succeeded'],
    limit: limits.checks.usualAttemptsRead,
  });
  const usual = toUsualDuration(ended.rows.map(durationOf));
  const heldMs = fromTimestamp(now) - fromTimestamp(startOf(holder));
  if (heldMs < overlongAfterMs(usual)) return [];
  return [describeHeldKey(concurrencyKey, { holder, waiting, usual, now })];
}

function startOf({ startedAt, createdAt }: Run): Timestamp {
  return startedAt ?? createdAt;
}

function durationOf(run: Run): number {
  return fromTimestamp(run.completedAt ?? startOf(run)) - fromTimestamp(startOf(run));
}

interface HeldKeyFacts {
  readonly holder: Run;
  readonly waiting: readonly Run[];
  readonly usual: UsualDuration | undefined;
  readonly now: Timestamp;
}

function describeHeldKey(key: string, { holder, waiting, usual, now }: HeldKeyFacts): LiveFinding {
  const { id, pipeline } = holder;
  const count = waiting.length;
  const since = startOf(holder);
  const takes =
    usual === undefined
      ? 'the pipeline has no history to compare with'
      : `95 % of its last ${usual.attempts} runs took at most ${formatDuration(usual.p95Ms)}`;
  const held = `Run ${id} of the pipeline ${pipeline} has held the concurrency key ${key}`;
  const others = count === 1 ? 'A run waits' : `${count} runs wait`;
  return {
    kind: 'key_held',
    key,
    severity: 'warning',
    category: 'pipelines',
    impact: 'part',
    message: `${held} for ${formatAge(since, now)}. ${others} for it.`,
    evidence: `the run started at ${since}; ${takes}`,
    fix: 'Find out what the run waits for. Cancel it if its work is no longer needed; the next run starts then.',
    commands: [`ductile run cancel ${id}`],
    why: id,
    since,
    count,
    detail: {
      run_id: id,
      pipeline,
      waiting_run_ids: waiting.slice(0, limits.findingIdsMax).map((run) => run.id),
    },
  };
}

/** Finds runs and directives that wait for a person, one finding for each pipeline and each type. */
export const findWaitingApprovals: Check = async (context) => {
  const { ledger } = context;
  const [questions, waiting] = await Promise.all([
    ledger.runs.listOpenQuestions(limits.pageRowsMax),
    ledger.directives.page({ awaitingApproval: true, limit: limits.findingRowsMax }),
  ]);
  const byPipeline = [...Map.groupBy(questions, ({ pipeline }) => pipeline)];
  const byType = [...Map.groupBy(waiting.rows, ({ type }) => type)];
  return [
    ...(await Promise.all(
      byPipeline
        .slice(0, limits.findingGroupsMax)
        .map(([pipeline, steps]) => describeQuestions(pipeline, steps, context)),
    )),
    ...byType.map(([type, directives]) => describeDirectives(type, directives, context)),
  ].slice(0, limits.findingGroupsMax);
};

const common = {
  kind: 'approval_waiting',
  severity: 'warning',
  category: 'approvals',
  impact: 'item',
} as const;

async function describeQuestions(
  pipeline: string,
  steps: readonly OpenQuestion[],
  { ledger, now }: CheckContext,
): Promise<LiveFinding> {
  const oldest = steps.toSorted((a, b) => (a.startedAt < b.startedAt ? -1 : 1))[0];
  const { runId = '', node = '', startedAt = now, note = null, dueAt = null } = oldest ?? {};
  // Several branches can wait at the same step; only the id of the step names one of them.
  const isOnlyOne = steps.filter((one) => one.runId === runId && one.node === node).length === 1;
  const step = isOnlyOne ? node : (oldest?.id ?? node);
  const count = steps.length;
  const what = count === 1 ? 'An approval' : `${count} approvals`;
  const text = note === null ? null : await showText(ledger, note, { runId });
  const question = text === null ? '' : `: ${text}`;
  const until = dueAt === null ? '' : `; its time ends at ${dueAt}`;
  return {
    ...common,
    key: pipeline,
    message: `${what} of the pipeline ${pipeline} ${count === 1 ? 'waits' : 'wait'} for a decision.`,
    evidence: `run ${runId} has waited at ${node} for ${formatAge(startedAt, now)}${until}${question}`,
    fix: 'Approve or reject it. The run continues after that.',
    commands: [`ductile run approve ${runId} ${step}`, `ductile run reject ${runId} ${step}`],
    why: runId,
    since: startedAt,
    count,
    detail: {
      pipeline,
      run_ids: [...new Set(steps.map((one) => one.runId))].slice(0, limits.findingIdsMax),
      step,
      message: text,
    },
  };
}

function describeDirectives(
  type: string,
  directives: readonly Directive[],
  { now }: CheckContext,
): LiveFinding {
  const oldest = directives.at(-1);
  const { id = '', actor = '', target = '', requestedAt = now } = oldest ?? {};
  const count = directives.length;
  const what = count === 1 ? 'A directive' : `${count} directives`;
  return {
    ...common,
    key: `directive/${type}`,
    message: `${what} ${type} ${count === 1 ? 'waits' : 'wait'} for approval.`,
    evidence: `${actor} requested it for ${target}, ${formatAge(requestedAt, now)} ago (directive ${id})`,
    fix: 'Approve it, or cancel it.',
    commands: [`ductile directive approve ${id}`, `ductile directive cancel ${id}`],
    why: id,
    since: requestedAt,
    count,
    detail: { type, directive_ids: directives.slice(0, limits.findingIdsMax).map((one) => one.id) },
  };
}
