/** Why a run waits or ended, with plain data. */
import { describe, expect, test } from 'vitest';
import { explainRunRecord, type RunFacts } from '../../src/insight/why/run.ts';
import type { ApproveNode, Node, OnError, WaitNode } from '../../src/pipeline/language/graph.ts';
import type { Run } from '../../src/pipeline/run/run.ts';
import { holder, service, later, plugin, queued, run } from './why-texts.ts';

const leads = { id: 'ok', next: null, end: null, list: 'ok', when: undefined };

function asked(onTimeout: ApproveNode['onTimeout'], onError: OnError = 'halt'): ApproveNode {
  return { ...leads, kind: 'approve', message: undefined, timeoutMs: 1000, onTimeout, onError };
}

function listening(onError: OnError): WaitNode {
  return {
    ...leads,
    kind: 'wait',
    delayMs: undefined,
    until: undefined,
    signal: { type: 'order.paid', from: undefined, when: undefined },
    timeoutMs: 1000,
    onError,
  };
}

describe('a run', () => {
  const explain = (more: Partial<RunFacts>) =>
    explainRunRecord({ run, links: [], service, waits: [], rivals: [], ...more });
  const wait = { branch: '', step: 'ok', why: '', until: null, job_id: null, step_id: null };

  test('that waits for a person says how that person answers', () => {
    const why = 'it waits for approval: Send?';
    const explanation = explain({
      nodes: { ok: asked('halt') },
      waits: [{ ...wait, why, step_id: 'step-1', until: later }],
    });
    expect(explanation.verdict).toBe('Step ok: it waits for approval: Send?');
    expect(explanation.moves_at).toBe(later);
    expect(explanation.commands[0]).toBe('ductile run approve run-1 step-1');
  });

  test.each<[string, Node, string]>([
    ['halts', asked('halt'), 'it halts then, unless a person decides before'],
    ['is approved', asked('approve'), 'it is approved then, unless a person decides before'],
    [
      'is rejected, which halts it',
      asked('reject'),
      'it is rejected then, which halts it, unless a person decides before',
    ],
    [
      'is rejected and continues',
      asked('reject', 'continue'),
      'it is rejected then and continues, unless a person decides before',
    ],
  ])('whose question has a deadline says that it %s then', (_, node, movesBy) => {
    const why = 'it waits for approval';
    const explanation = explain({
      nodes: { ok: node },
      waits: [{ ...wait, why, step_id: 's', until: later }],
    });
    expect([explanation.moves_at, explanation.moves_by]).toEqual([later, movesBy]);
  });

  test.each<[Node, string]>([
    [listening('halt'), 'it halts then, unless the signal arrives before'],
    [
      listening('continue'),
      'it continues without the signal then, unless the signal arrives before',
    ],
    [{ ...listening('halt'), signal: undefined }, 'it continues then'],
  ])('that waits says what its time does', (node, movesBy) => {
    const waits = [
      { ...wait, why: 'it waits for the signal order.paid', step_id: 's', until: later },
    ];
    expect(explain({ nodes: { ok: node }, waits }).moves_by).toBe(movesBy);
  });

  test('with many branches says how many more wait, and that it is not all when it is not', () => {
    const waits = Array.from({ length: 8 }, () => ({ ...wait, why: 'worker poll is queued' }));
    const factsOf = (explanation: ReturnType<typeof explain>) =>
      explanation.chain.map(({ fact }) => fact);
    expect(factsOf(explain({ waits }))).toContain('3 more branches wait');
    const more = { ...wait, step: null, why: 'more than 8 branches are open' };
    expect(factsOf(explain({ waits: [...waits, more] }))).toContain(
      'at least 4 more branches wait',
    );
  });

  test('whose job waits says what holds the job', () => {
    const job = { job: queued, service, plugin: { ...plugin, parallelism: 1 } };
    const queue = { running: [holder('a')], ahead: 0 };
    const waits = [{ ...wait, why: 'worker poll is queued', job_id: 'job-9' }];
    const explanation = explain({ waits, job: { ...job, queue } });
    expect(explanation.chain.map(({ fact }) => fact)).toEqual([
      'step ok: worker poll is queued',
      'the plugin worker runs 1 job at a time',
    ]);
  });

  test('in line names those before it', () => {
    const queuedRun: Run = { ...run, status: 'queued', concurrencyKey: 'k' };
    const explanation = explain({ run: queuedRun, rivals: [{ ...run, id: 'run-0' }] });
    expect(explanation.chain[0]?.evidence).toBe('running first: run run-0');
    expect(explanation.commands).toContain('ductile why run-0');
  });

  test('that halted is revived', () => {
    const halted: Run = {
      ...run,
      status: 'halted',
      haltReason: 'retries_exhausted',
      haltedAtStep: 'send',
      haltMessage: 'no route',
      completedAt: later,
    };
    const explanation = explain({ run: halted });
    expect(explanation.verdict).toBe('A run of the pipeline digest halted at send.');
    expect(explanation.commands[0]).toBe('ductile run revive run-1');
    expect(explain({ run: halted, revivedAs: 'run-2' }).commands).toEqual(['ductile why run-2']);
  });
});
