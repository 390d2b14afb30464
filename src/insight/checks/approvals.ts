import { limits } from '../../base/limits.ts';
import type { Directive } from '../../directive/directive.ts';
import type { OpenQuestion } from '../finding-reads.ts';
import type { Check, CheckContext } from '../check.service.ts';
import { type LiveFinding, formatAge } from '../finding.ts';
import { showText } from '../show-text.service.ts';

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
        .map(([pipeline, asked]) => describeQuestions(pipeline, asked, context)),
    )),
    ...byType.map(([type, asked]) => describeDirectives(type, asked, context)),
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
  asked: readonly OpenQuestion[],
  { ledger, now }: CheckContext,
): Promise<LiveFinding> {
  const oldest = asked.toSorted((a, b) => (a.startedAt < b.startedAt ? -1 : 1))[0];
  const { runId = '', node = '', startedAt = now, note = null, dueAt = null } = oldest ?? {};
  // Several branches can wait at the same step; only the id of the step names one of them.
  const isAlone = asked.filter((one) => one.runId === runId && one.node === node).length === 1;
  const step = isAlone ? node : (oldest?.id ?? node);
  const count = asked.length;
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
      run_ids: [...new Set(asked.map((one) => one.runId))].slice(0, limits.findingIdsMax),
      step,
      message: text,
    },
  };
}

function describeDirectives(
  type: string,
  asked: readonly Directive[],
  { now }: CheckContext,
): LiveFinding {
  const oldest = asked.at(-1);
  const { id = '', actor = '', target = '', requestedAt = now } = oldest ?? {};
  const count = asked.length;
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
    detail: { type, directive_ids: asked.slice(0, limits.findingIdsMax).map((one) => one.id) },
  };
}
