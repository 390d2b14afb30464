import type { Row, Table } from './frame.ts';
import { listRequests } from './large-requests.ts';

export const largeTables: readonly Table[] = [
  largeTable('SQLite', 40),
  largeTable('PostgreSQL', 42),
];

/** A million finished and a million queued jobs. */
function largeTable(database: string, id: number): Table {
  return {
    title: `Large ledger, a million finished and a million queued jobs: ${database}`,
    rows: [
      {
        id: `${id}`,
        title: 'POST of a job beside two dashboards, p99',
        arms: [`Ductile, ${database}, large ledger, POST beside two dashboards`],
        base: `Ductile, ${database}, large ledger, POST alone`,
        metric: 'p99Ms',
        unit: 'ms',
        goal: 2,
        better: 'lower',
        reps: 3,
      },
      ...Object.keys(listRequests('any')).map((name, at): Row => ({
        id: `${id + 1}${String.fromCodePoint('a'.charCodeAt(0) + at)}`,
        title: `GET, ${name}, at a million ÷ at a thousand, p50`,
        arms: [`Ductile, ${database}, large ledger, reads`],
        base: `Ductile, ${database}, small ledger, reads`,
        metric: name,
        unit: 'ms',
        goal: 2,
        better: 'lower',
        reps: 3,
      })),
    ],
  };
}
