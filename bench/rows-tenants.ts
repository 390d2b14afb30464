import type { Row, Table } from './frame.ts';

export const tenantTable: Table = {
  title: 'Tenants: SQLite, on the disk before it is answered',
  rows: [
    {
      id: '27a',
      title: 'one job a second beside a tenant with 100 thousand queued, accepted to started, p99',
      arms: ['Ductile, SQLite, second tenant, busy system'],
      base: 'Ductile, SQLite, second tenant, idle system',
      metric: 'p99Ms',
      unit: 'ms',
      goal: 3,
      better: 'lower',
      reps: 3,
    },
    idle('27b', '1,000 idle tenants, share of one core', 'cpuPercent', '%'),
    idle('27c', 'the same, resident', 'residentMb', 'MB'),
  ],
};

function idle(id: string, title: string, metric: string, unit: string): Row {
  return {
    id,
    title,
    arms: ['Ductile, SQLite, 1,000 idle tenants'],
    base: 'what idle tenants may cost',
    metric,
    unit,
    goal: 1,
    better: 'lower',
    reps: 3,
  };
}
