import type { Directive } from '../../directive/directive.ts';
import {
  toFirstLine,
  toExplanation,
  type ExplanationCause,
  type Explanation,
} from './explanation.ts';
import { approvalWaiting } from '../findings/runs.ts';
import { toFindingCause } from './finding.ts';
import type { ServiceFacts } from './facts.ts';
import { listServiceCauses } from './waits.ts';

export interface DirectiveFacts {
  readonly directive: Directive;
  readonly service: Pick<ServiceFacts, 'hosts' | 'trouble'>;
}

/** Explains the state of a directive. A paused system or a suspended tenant doesn't hold it back. */
export function explainDirective({ directive, service }: DirectiveFacts): Explanation {
  const { id, type, target, actor, status, requestedAt } = directive;
  const subject = { kind: 'directive', id, state: status } as const;
  const origin = [
    {
      fact: `${actor} requested ${type}`,
      evidence: target === '' ? type : target,
      at: requestedAt,
    },
    ...(directive.causationId === null
      ? []
      : [{ fact: 'another record caused it', evidence: directive.causationId }]),
  ];
  const held =
    status === 'requested'
      ? listServiceCauses({ ...service, paused: undefined, tenant: undefined })
      : [];
  return toExplanation(subject, [describeDirectiveState(directive), ...held], origin, [
    `ductile directive show ${id}`,
  ]);
}

function describeDirectiveState(directive: Directive): ExplanationCause {
  const { id, type, status, runAt, attempt, processId, startedAt, completedAt } = directive;
  if (status === 'requested' && directive.awaitingApproval) {
    return toFindingCause(approvalWaiting.describe({ type, directives: [directive] }));
  }
  if (status === 'requested') {
    return {
      fact: runAt === null ? 'it waits for a process that can execute it' : 'it is not due yet',
      evidence: 'directives do not wait for jobs or runs',
      at: runAt,
      movesAt: runAt,
      movesBy: 'it starts when a process claims it',
      commands: [`ductile directive cancel ${id}`],
    };
  }
  if (status === 'running') {
    const evidence = `attempt ${attempt} on process ${processId}`;
    return { fact: 'it is running', evidence, at: startedAt, movesBy: 'it ends by itself' };
  }
  if (status === 'cancelled') {
    const by = directive.cancelledBy ?? 'an unknown actor';
    return { fact: `${by} cancelled it`, evidence: 'before it started', at: completedAt };
  }
  if (status === 'failed') {
    const evidence = toFirstLine(directive.error ?? 'no error was recorded');
    return { fact: `it failed: ${directive.errorCode ?? 'UNKNOWN'}`, evidence, at: completedAt };
  }
  return { fact: 'it was completed', evidence: `attempt ${attempt}`, at: completedAt };
}
