import * as z from 'zod';
import type { DirectiveType } from '../directive/directive.ts';

/** The parameters of a backup or an export. */
export interface CopyParams {
  /** A path on the host that executes the directive. */
  readonly to: string;
}

export const copyPath = z
  .string()
  .startsWith('/', { error: 'must be an absolute path, since the server writes it' });

/** A copy contains all data, so each one is recorded with its actor and its path. */
const common: Pick<DirectiveType<CopyParams>, 'isImmediate' | 'sameness' | 'target'> = {
  // The path is on the host that gets the request.
  isImmediate: true,
  sameness: () => 'each',
  target: ({ to }) => to,
};

export const backupType: DirectiveType<CopyParams> = {
  ...common,
  type: 'system.backup',
  summary: 'Copy the ledger into a file while it is in use.',
  scope: 'system:rw',
  params: z.strictObject({ to: copyPath.describe('the file to write') }),
};

export const exportType: DirectiveType<CopyParams> = {
  ...common,
  type: 'system.export',
  summary: 'Copy all ledgers into a directory, to import them elsewhere.',
  scope: '*',
  role: 'owner',
  params: z.strictObject({ to: copyPath.describe('the directory to write') }),
};
