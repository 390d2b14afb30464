import type { Migration } from '../dialect.ts';

/** The index of steps that wait for a person: they are few, and `doctor` looks for them often. */
export const questions: Migration = {
  version: 19,
  name: 'questions',
  statements: (d) => [
    `create index run_steps_asking on ${d.table('run_steps')} (run_id, branch_id)
      where status = 'waiting' and kind = 'approve'`,
  ],
};
