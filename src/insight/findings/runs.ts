import { fromTimestamp, type Timestamp } from '../../base/clock.ts';
import { limits } from '../../base/limits.ts';
import type { Directive } from '../../directive/directive.ts';
import type { Run } from '../../pipeline/run/run.ts';
import { defineFinding, type CheckContext, showText } from '../define-finding.service.ts';
import { acknowledgeCommand, formatAge, groupUnacknowledged, toFindingWindow } from '../finding.ts';
import type { OpenQuestion } from '../types.ts';
import { describeUsual, overlongAfterMs, toUsualDuration } from '../usual-duration.service.ts';

export const runHalted = defineFinding({
  kind: 'run_halted',
  condition: 'A run halted in the last 7 days at a step that failed, and was not revived.',
  rank: { severity: 'error', category: 'pipelines', impact: 'item' },
  fix: 'Fix the cause, then revive the run. It continues at the step that failed.',
  command: 'ductile run revive RUN',
  incident: 'found',
  isAcknowledgeable: true,
  async find(context) {
    const { ledger, now } = context;
    const runs = await ledger.runs.listHalted(toFindingWindow(now));
    const groups = groupUnacknowledged(runs, 'run_halted', ({ pipeline }) => pipeline, context);
    return await Promise.all(
      groups.slice(0, limits.findingGroupsMax).map(async ([pipeline, halted]) => {
        const { id = '', haltMessage = null, haltReason = null } = halted[0] ?? {};
        const reason = await showText(ledger, haltMessage ?? haltReason, { runId: id });
        return { pipeline, halted, reason };
      }),
    );
  },
  describe({ pipeline, halted, reason }) {
    const { id = '', haltedAtStep = null } = halted[0] ?? {};
    const count = halted.length;
    const runs = count === 1 ? 'A run' : `${count} runs`;
    const where = haltedAtStep ?? 'its start';
    return {
      key: pipeline,
      message: `${runs} of the pipeline ${pipeline} halted${count === 1 ? ` at ${where}` : ''}.`,
      evidence: `run ${id} halted at ${where}: ${reason}`,
      commands: [`ductile run revive ${id}`, acknowledgeCommand('run_halted', pipeline)],
      why: id,
      since: halted.at(-1)?.completedAt,
      count,
      detail: { pipeline, run_ids: halted.slice(0, limits.findingIdsMax).map((run) => run.id) },
    };
  },
});

export const keyHeld = defineFinding({
  kind: 'key_held',
  condition:
    'A run holds a concurrency key far longer than its pipeline takes, and others wait for it.',
  rank: { severity: 'warning', category: 'pipelines', impact: 'part' },
  fix: 'Find out what the run waits for. Cancel it if its work is no longer needed; the next run starts then.',
  command: 'ductile run cancel RUN',
  async find(context) {
    const { rows } = await context.ledger.runs.page({
      status: ['queued'],
      limit: limits.findingRowsMax,
    });
    const waiting = rows.filter(
      ({ concurrencyKey, dueAt }) => concurrencyKey !== null && dueAt === null,
    );
    const byKey = [...Map.groupBy(waiting, ({ concurrencyKey }) => concurrencyKey ?? '')];
    const found = await Promise.all(
      byKey.slice(0, limits.findingGroupsMax).map(([key, runs]) => findHolder(key, runs, context)),
    );
    return found.flat();
  },
  describe({ key, holder, waiting, usual, now }) {
    const { id, pipeline } = holder;
    const count = waiting.length;
    const since = startOf(holder);
    const others = count === 1 ? 'A run waits' : `${count} runs wait`;
    return {
      key,
      message:
        `Run ${id} of the pipeline ${pipeline} has held the concurrency key ${key} ` +
        `for ${formatAge(since, now)}. ${others} for it.`,
      evidence: `the run started at ${since}; ${describeUsual(usual, ['pipeline', 'runs'])}`,
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
  },
});

async function findHolder(key: string, waiting: readonly Run[], { ledger, now }: CheckContext) {
  const open = await ledger.runs.list({ concurrencyKey: key, limit: limits.findingRowsMax });
  const holders = open.filter(({ status }) => status === 'running');
  const [holder] = holders.toSorted((a, b) => (startOf(a) < startOf(b) ? -1 : 1));
  if (holder === undefined) return [];
  const ended = await ledger.runs.page({
    pipeline: holder.pipeline,
    status: ['succeeded'],
    limit: limits.checks.usualAttemptsRead,
  });
  const usual = toUsualDuration(ended.rows.map(durationOf));
  const heldMs = fromTimestamp(now) - fromTimestamp(startOf(holder));
  return heldMs < overlongAfterMs(usual) ? [] : [{ key, holder, waiting, usual, now }];
}

function startOf({ startedAt, createdAt }: Run): Timestamp {
  return startedAt ?? createdAt;
}

function durationOf(run: Run): number {
  return fromTimestamp(run.completedAt ?? startOf(run)) - fromTimestamp(startOf(run));
}

/** The steps of a pipeline, or the directives of a type, that wait for a person. */
type WaitingApprovals =
  | {
      readonly pipeline: string;
      readonly steps: readonly OpenQuestion[];
      /** The question of the oldest step. */
      readonly text: string | null;
      readonly now: Timestamp;
    }
  | {
      readonly type: string;
      /** Newest first. */
      readonly directives: readonly Directive[];
      readonly now?: Timestamp;
    };

export const approvalWaiting = defineFinding<WaitingApprovals>({
  kind: 'approval_waiting',
  condition: 'A run or a directive waits for a person to decide.',
  rank: { severity: 'warning', category: 'approvals', impact: 'item' },
  fix: 'Approve or reject it. The run continues after that.',
  command: 'ductile run approve RUN STEP',
  incident: 'found',
  async find({ ledger, now }) {
    const [questions, waiting] = await Promise.all([
      ledger.runs.listOpenQuestions(limits.pageRowsMax),
      ledger.directives.page({ awaitingApproval: true, limit: limits.findingRowsMax }),
    ]);
    const byPipeline = [...Map.groupBy(questions, ({ pipeline }) => pipeline)];
    const byType = [...Map.groupBy(waiting.rows, ({ type }) => type)];
    const asked = byPipeline.slice(0, limits.findingGroupsMax).map(async ([pipeline, steps]) => {
      const { note = null, runId } = findOldest(steps) ?? {};
      const text = note === null ? null : await showText(ledger, note, { runId });
      return { pipeline, steps, text, now };
    });
    return [
      ...(await Promise.all(asked)),
      ...byType.map(([type, directives]) => ({ type, directives, now })),
    ].slice(0, limits.findingGroupsMax);
  },
  describe: (found) => ('type' in found ? describeDirectives(found) : describeQuestions(found)),
});

function findOldest(steps: readonly OpenQuestion[]): OpenQuestion | undefined {
  return steps.toSorted((a, b) => (a.startedAt < b.startedAt ? -1 : 1))[0];
}

function describeQuestions({
  pipeline,
  steps,
  text,
  now,
}: Extract<WaitingApprovals, { pipeline: string }>) {
  const oldest = findOldest(steps);
  const { runId = '', node = '', startedAt = now, dueAt = null } = oldest ?? {};
  // Several branches can wait at the same step; only the id of the step names one of them.
  const isOnlyOne = steps.filter((one) => one.runId === runId && one.node === node).length === 1;
  const step = isOnlyOne ? node : (oldest?.id ?? node);
  const count = steps.length;
  const what = count === 1 ? 'An approval' : `${count} approvals`;
  const until = dueAt === null ? '' : `; its deadline is ${dueAt}`;
  const question = text === null ? '' : `: ${text}`;
  return {
    key: pipeline,
    message: `${what} of the pipeline ${pipeline} ${count === 1 ? 'waits' : 'wait'} for a decision.`,
    evidence: `run ${runId} has waited at ${node} for ${formatAge(startedAt, now)}${until}${question}`,
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

function describeDirectives({
  type,
  directives,
  now,
}: Extract<WaitingApprovals, { type: string }>) {
  const { id = '', actor = '', target = '', requestedAt } = directives.at(-1) ?? {};
  const count = directives.length;
  const what = count === 1 ? 'A directive' : `${count} directives`;
  const ago =
    now === undefined || requestedAt === undefined ? '' : `, ${formatAge(requestedAt, now)} ago`;
  return {
    key: `directive/${type}`,
    message: `${what} ${type} ${count === 1 ? 'waits' : 'wait'} for approval.`,
    evidence: `${actor} requested it for ${target}${ago} (directive ${id})`,
    fix: 'Approve it, or cancel it.',
    commands: [`ductile directive approve ${id}`, `ductile directive cancel ${id}`],
    why: id,
    since: requestedAt,
    count,
    detail: { type, directive_ids: directives.slice(0, limits.findingIdsMax).map((one) => one.id) },
  };
}
