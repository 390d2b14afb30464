import type { Row, Table } from './frame.ts';

export const signalTable: Table = {
  title: 'Signals: SQLite, on the disk before it is answered, and PostgreSQL',
  rows: [
    emit('28a', 'emit with no handler', 'SQLite, emit, 8 in flight', 'SQLite, 8 in a commit'),
    emit('28b', 'the same, one by one', 'SQLite, emit, one by one', 'SQLite, one by one'),
    emit('28c', 'the same', 'PostgreSQL, emit, 8 in flight', 'PostgreSQL, 8 in flight'),
    {
      id: '28d',
      title: 'replay of 100 thousand, resident late in it over resident early in it',
      arms: ['Ductile, SQLite, replay'],
      base: 'what a replay may cost',
      metric: 'growth',
      unit: '×',
      goal: 1,
      better: 'lower',
      reps: 3,
    },
  ],
};

function emit(id: string, title: string, arm: string, base: string): Row {
  return {
    id,
    title,
    arms: [`Ductile, ${arm}`],
    base: `bare insert, ${base}`,
    metric: 'rate',
    unit: 'signals/s',
    goal: 0.5,
    better: 'higher',
  };
}
