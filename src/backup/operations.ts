import * as z from 'zod';
import { copyPath } from './directives.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective } from '../operation/request-directive.ts';

const copyErrors = [
  ...directErrors,
  'BACKUP_INVALID',
  'BACKUP_REFUSED',
  'INPUT_INVALID',
  'LEDGER_UNAVAILABLE',
] as const;

export const systemBackup = defineOperation({
  name: 'system.backup',
  summary: 'Copy the ledger into a file while it is in use.',
  effect: 'write',
  isForRoot: true,
  scope: 'system:rw',
  input: z.strictObject({
    to: copyPath.describe('the file to write; it must not exist yet'),
  }),
  output: z.object({ path: z.string(), directive_id: z.string() }),
  errors: copyErrors,
  http: { method: 'POST', path: '/system/backup' },
  cli: {
    flags: { to: '--to <file>' },
    paths: ['to'],
    examples: ['ductile system backup --to ductile-backup.db'],
  },
  async run(context, input) {
    const { id } = await direct(context, 'system.backup', input);
    return { path: input.to, directive_id: id };
  },
  plan: (context, input) => planDirective(context, 'system.backup', input),
});

const ledgersShape = z.array(
  z.object({
    tenant: z.string().nullable().describe('null for the root ledger'),
    file: z.string(),
    sha256: z.string(),
    rows: z.int(),
  }),
);

export const systemExport = defineOperation({
  name: 'system.export',
  summary: 'Copy all ledgers into a directory, to import them elsewhere, while they are in use.',
  effect: 'write',
  isForRoot: true,
  scope: '*',
  input: z.strictObject({
    to: copyPath.describe('the directory to write; it must be new or empty'),
  }),
  output: z.object({
    path: z.string(),
    ledgers: ledgersShape,
    directive_id: z.string(),
  }),
  errors: copyErrors,
  http: { method: 'POST', path: '/system/export' },
  cli: {
    flags: { to: '--to <directory>' },
    paths: ['to'],
    examples: ['ductile system export --to ./moved'],
    table: {
      rows: 'ledgers',
      columns: [
        ['TENANT', 'tenant'],
        ['FILE', 'file'],
        ['ROWS', 'rows'],
        ['SHA-256', 'sha256', 'detail'],
      ],
      empty: 'Nothing was exported.',
    },
  },
  async run(context, input) {
    const { id, result } = await direct(context, 'system.export', input);
    return { path: input.to, ledgers: ledgersShape.parse(result['ledgers']), directive_id: id };
  },
  plan: (context, input) => planDirective(context, 'system.export', input),
});
