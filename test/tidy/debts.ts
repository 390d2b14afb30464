/** Imports against the direction that are left from the old layout. The list only gets shorter. */
export const debts: readonly string[] = [
  'src/directive/directive.sql.ts → src/job/enqueue.sql.ts',
  'src/directive/directive.sql.ts → src/pipeline/run/advance.sql.ts',
  'src/job/enqueue.sql.ts → src/signal/signal.sql.ts',
  'src/job/settle.sql.ts → src/pipeline/run/advance.sql.ts',
  'src/job/settle.sql.ts → src/schedule/breaker.sql.ts',
  'src/job/settle.sql.ts → src/signal/signal.sql.ts',
  'src/schedule/operations.ts → src/insight/why/schedule-holds.ts',
  'src/signal/emit.sql.ts → src/pipeline/run/advance.sql.ts',
  'src/signal/replay.sql.ts → src/pipeline/run/advance.sql.ts',
];
