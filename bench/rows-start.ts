import type { Row, Table } from './frame.ts';

export const startTable: Table = {
  title: 'Cold start of the command line, from the start of the process to its end',
  rows: [
    coldStart('30a', 'ductile --version', 1.6),
    coldStart('30b', 'ductile job list --json', 3),
  ],
};

function coldStart(id: string, arm: string, goal: number): Row {
  return {
    id,
    title: `${arm}, p50`,
    arms: [arm],
    base: 'bare node',
    metric: 'p50Ms',
    unit: 'ms',
    goal,
    better: 'lower',
  };
}
