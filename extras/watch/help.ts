import type { Line } from './spans.ts';

const keys: readonly (readonly [keys: string, meaning: string])[] = [
  ['1 to 5, tab', 'jobs, runs, schedules, incidents, plugins'],
  ['↑ ↓, j k', 'move; PgUp PgDn ten rows, g G to the ends'],
  ['enter', 'details: why, attempts, errors, what was said last'],
  ['esc, q', 'back from the details'],
  ['/', 'show only rows with a text in them; esc shows all again'],
  ['c', 'cancel the job or run; shows what that would do, and asks'],
  ['r', 'retry the job, or revive the run; shows and asks too'],
  ['p', 'pause the view, and let it go on'],
  ['ctrl-L', 'draw everything anew'],
  ['ctrl-Z', 'suspend; fg comes back'],
  ['q, ctrl-C', 'quit'],
];

export const helpLines: readonly Line[] = [
  [],
  ...keys.map(([names, meaning]): Line => [
    { text: `  ${names.padEnd(12)}  `, style: 'bold' },
    { text: meaning },
  ]),
];
