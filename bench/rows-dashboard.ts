import type { Table } from './frame.ts';

export const dashboardTable: Table = {
  title: 'Dashboard: a real Chromium, SQLite',
  rows: [
    {
      id: '32a',
      title: 'first useful paint of the jobs, with 100 thousand of them, p50',
      arms: ['Ductile, dashboard, 100 thousand jobs'],
      base: 'Ductile, dashboard, 100 jobs',
      metric: 'p50Ms',
      unit: 'ms',
      goal: 1.3,
      better: 'lower',
      reps: 3,
    },
    {
      id: '32b',
      title: 'jobs with a process each, 8 slots, beside 200 open dashboards',
      arms: ['Ductile, SQLite, 8 slots, 200 dashboards'],
      base: 'Ductile, SQLite, 8 slots, no dashboard',
      metric: 'rate',
      unit: 'jobs/s',
      goal: 0.9,
      better: 'higher',
    },
  ],
};
