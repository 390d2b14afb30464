/** Runs as trees: nested branches, and steps in progress. */
import { expect, test } from 'vitest';
import { findOwners } from '../../src/pipeline/run/run.service.ts';
import { toTree } from '../../src/pipeline/run/run.operations.ts';
import type { Branch, Step } from '../../src/pipeline/run/run.ts';

const WHEN = '2026-01-02T03:04:05.678Z';

function branch(id: string, rest: Partial<Branch>): Branch {
  return {
    id,
    runId: 'r',
    parentId: null,
    parentMoves: null,
    index: 0,
    label: null,
    path: '0',
    node: '',
    stop: null,
    status: 'succeeded',
    payload: '{}',
    isWhole: false,
    eventContextId: null,
    jobId: null,
    moves: 0,
    width: 0,
    cursor: 0,
    pending: 0,
    dueAt: null,
    claimedBy: null,
    waitsFor: null,
    haltReason: null,
    haltMessage: null,
    lastStepId: null,
    createdAt: WHEN,
    completedAt: WHEN,
    ...rest,
  };
}

function step(branchId: string, node: string, kind = 'task', rest: Partial<Step> = {}): Step {
  return {
    id: `${branchId} ${node}`,
    runId: 'r',
    branchId,
    node,
    kind,
    status: 'succeeded',
    jobId: null,
    output: '{}',
    error: null,
    note: null,
    nextNode: null,
    sourceStepId: null,
    startedAt: WHEN,
    dueAt: null,
    completedAt: WHEN,
    ...rest,
  };
}

function draw(branches: readonly Branch[], steps: readonly Step[]): string[] {
  return toTree({ branches, steps }).map(
    ({ depth, name, kind, status }) => `${' '.repeat(depth)}${name} ${kind} ${status}`,
  );
}

test('branches of a block that joined are under its step, each block its own', () => {
  const branches = [
    branch('r', {}),
    branch('r.1.0', { parentId: 'r', parentMoves: 1 }),
    branch('r.1.1', { parentId: 'r', parentMoves: 1, index: 1 }),
    branch('r.4.0', { parentId: 'r', parentMoves: 4, label: 'left' }),
  ];
  const steps = [
    step('r', 'each', 'foreach'),
    step('r', 'none', 'foreach', { status: 'skipped' }),
    step('r', 'in/empty', 'foreach', { output: '{"empty":[]}' }),
    step('r', 'both', 'split'),
    step('r.1.0', 'x'),
    step('r.1.1', 'x'),
    step('r.4.0', 'left'),
  ];
  expect(draw(branches, steps)).toEqual([
    'each foreach succeeded',
    ' 0 branch succeeded',
    '  x task succeeded',
    ' 1 branch succeeded',
    '  x task succeeded',
    'none foreach skipped',
    'in/empty foreach succeeded',
    'both split succeeded',
    ' left branch succeeded',
    '  left task succeeded',
  ]);
});

test('a branch in progress is listed without a step of its own', () => {
  const open = { completedAt: null };
  const branches = [
    branch('r', { ...open, status: 'waiting', node: 'each', width: 2, pending: 2 }),
    branch('r.1.0', { ...open, parentId: 'r', parentMoves: 1, status: 'running', node: 'y' }),
    branch('r.1.1', {
      ...open,
      parentId: 'r',
      parentMoves: 1,
      index: 1,
      status: 'waiting',
      node: 'ok',
    }),
  ];
  const approval = step('r.1.1', 'ok', 'approve', { status: 'waiting', completedAt: null });
  expect(draw(branches, [step('r', 'a'), step('r.1.0', 'x'), approval])).toEqual([
    'a task succeeded',
    'each step waiting',
    ' 0 branch running',
    '  x task succeeded',
    '  y step running',
    ' 1 branch waiting',
    '  ok approve waiting',
  ]);
});

test('a block took as long as from the first of its branches to the join', () => {
  const second = (n: number): string => `2026-01-02T03:04:0${n}.000Z`;
  const at = (from: number, to: number) => ({ createdAt: second(from), completedAt: second(to) });
  const branches = [
    branch('r', at(0, 9)),
    branch('r.1.0', { parentId: 'r', parentMoves: 1, ...at(2, 3) }),
    branch('r.1.1', { parentId: 'r', parentMoves: 1, index: 1, ...at(1, 5) }),
  ];
  const joined = { startedAt: second(5), completedAt: second(5) };
  const nodes = toTree({ branches, steps: [step('r', 'each', 'foreach', joined)] });
  expect(nodes.map(({ name, duration_ms }) => `${name} ${duration_ms}`)).toEqual([
    'each 4000',
    '0 1000',
    '1 4000',
  ]);
});

test('a branch is identified by its block, even if it is open', () => {
  const branches = [
    branch('r', { node: 'both', status: 'waiting' }),
    branch('r.1.0', { parentId: 'r', parentMoves: 1 }),
    branch('r.4.0', { parentId: 'r', parentMoves: 4, label: 'left', status: 'running' }),
  ];
  const owners = findOwners({ branches, steps: [step('r', 'each', 'foreach')] });
  expect([...owners]).toEqual([
    ['r.1.0', 'each'],
    ['r.4.0', 'both'],
  ]);
});
