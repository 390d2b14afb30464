import * as z from 'zod';
import type { DirectiveType } from '../directive/directive.ts';

export interface CopyChoice {
  /** A path of the host that does it. */
  readonly to: string;
}

export const copyPath = z
  .string()
  .startsWith('/', { error: 'must be an absolute path, since the server writes it' });

/** Whoever has a copy has everything, so it is on record who had one made, and where it went. */
const common: Pick<DirectiveType<CopyChoice>, 'isImmediate' | 'sameness' | 'target'> = {
  // The path is one of the host that is asked.
  isImmediate: true,
  sameness: () => 'each',
  target: ({ to }) => to,
};

export const backupType: DirectiveType<CopyChoice> = {
  ...common,
  type: 'system.backup',
  summary: 'Copy the ledger into a file while it is in use.',
  scope: 'system:rw',
  params: z.strictObject({ to: copyPath.describe('the file to write') }),
};

export const exportType: DirectiveType<CopyChoice> = {
  ...common,
  type: 'system.export',
  summary: 'Copy all ledgers into a directory, to import them elsewhere.',
  scope: '*',
  role: 'owner',
  params: z.strictObject({ to: copyPath.describe('the directory to write') }),
};
