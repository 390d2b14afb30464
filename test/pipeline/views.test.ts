/** Pipelines on the command line. */
import { expect, test } from 'vitest';
import { run } from '../support/fake-cli.ts';

async function look(argv: readonly string[], answer: Readonly<Record<string, unknown>>) {
  const { out, err } = await run(argv, { answer });
  expect(err).toBe('');
  return out;
}

test('pipeline show: what is inside a step stands under it', async () => {
  const step = (id: string, arms: object[] = []) => ({
    id,
    kind: 'task',
    does: `${id}.do`,
    notes: [],
    arms,
  });
  const out = await look(['pipeline', 'show', 'photos'], {
    name: 'photos',
    on: null,
    definition_hash: 'h',
    steps: [
      { ...step('a'), notes: ['if payload.x'] },
      step('all', [{ label: null, steps: [step('b')] }]),
      step('which', [
        { label: 'case 1', steps: [step('c')] },
        { label: 'otherwise', steps: [] },
      ]),
    ],
  });
  expect(out).toBe(`name             photos
definition hash  h

Steps
a: a.do
    if payload.x
all: all.do
  b: b.do
which: which.do
  case 1
    c: c.do
  otherwise
`);
});

test('pipeline graph: the drawing itself, with nothing that moves the cursor', async () => {
  const drawing = 'photos\n└─ a: web.get\u001B[2J\n';
  const out = await look(['pipeline', 'graph', 'photos'], {
    pipeline: 'photos',
    format: 'text',
    drawing,
  });
  expect(out).toBe('photos\n└─ a: web.get\\u001b[2J\n');
});

test('pipeline test: what was done, what would be next, and how it stands', async () => {
  const common = {
    branch: '0',
    kind: 'task',
    input: { n: 1 },
    output: null,
    note: null,
    error: null,
  };
  const out = await look(['pipeline', 'test', 'photos'], {
    pipeline: 'photos',
    definition_hash: 'h',
    status: 'open',
    result: null,
    steps: [
      { ...common, step: 'a', does: 'web.get', status: 'succeeded', why: 'it is the first step' },
    ],
    next: [{ ...common, step: 'b', does: 'mail.send', why: 'it follows a', message: null }],
    halts: [],
    on_halt: null,
    complete: false,
  });
  expect(out.split('\n').map((line) => line.trimEnd())).toEqual([
    'BRANCH  STEP  DOES     STATUS     WHY                   NOTE',
    '0       a     web.get  succeeded  it is the first step  -',
    '',
    'Next',
    'BRANCH  STEP  KIND  DOES       WHY           INPUT',
    '0       b     task  mail.send  it follows a  {"n":1}',
    '',
    'status  waiting for responses',
    'The simulation stopped at its size limit.',
    '',
  ]);
});
