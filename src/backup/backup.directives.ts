import { accessSync, constants, existsSync, readdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import * as z from 'zod';
import { DuctileError, messageOf } from '../base/errors.ts';
import { exportLedgers } from '../ledger/transfer.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';

const copyPath = z
  .string()
  .startsWith('/', { error: 'must be an absolute path, because the service writes it' });

/** A copy contains all data, so each one is recorded with its actor and its path. */
const common = {
  ledgers: 'root',
  // The path is on the host that gets the request.
  isImmediate: true,
  sameness: () => 'each' as const,
  target: ({ to }: { readonly to: string }) => to,
} as const;

const commonOperation = {
  effect: 'write',
  isForRoot: true,
  errors: ['BACKUP_INVALID', 'BACKUP_REFUSED', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
} as const;

export const backupDirective = defineDirective({
  ...common,
  type: 'system.backup',
  summary: 'Copy the database to a file. The service keeps running.',
  scope: 'system:rw',
  params: z.strictObject({ to: copyPath.describe('file to write; it must not exist yet') }),
  plan({ ledger }, { to }) {
    requireNewFile(to);
    return [`The ${ledger.kind} database will be copied to ${to}.`];
  },
  async execute({ ledger }, { to }, { directiveId: id }) {
    const result = { path: to };
    await ledger.backup(to, { id, result: JSON.stringify(result) });
    return result;
  },
  operation: {
    ...commonOperation,
    output: z.object({ path: z.string(), directive_id: directiveIdField }),
    http: { method: 'POST', path: '/system/backup' },
    cli: {
      flags: { to: '--to <file>' },
      paths: ['to'],
      examples: ['ductile system backup --to ductile-backup.db'],
    },
  },
});

export const exportDirective = defineDirective({
  ...common,
  type: 'system.export',
  summary: 'Copy all databases to a directory for an import elsewhere. The service keeps running.',
  scope: '*',
  role: 'owner',
  params: z.strictObject({
    to: copyPath.describe('directory to write; it must be new or empty'),
  }),
  async plan({ ledger }, { to }) {
    requireEmptyDirectory(to);
    const count = (await ledger.tenants.list()).length;
    return [
      `The ${ledger.kind} root database and those of ${count} tenants will be copied into ${to}.`,
      'The key for credentials is not copied. It stays in the state directory.',
    ];
  },
  async execute({ ledger, config }, { to }, { directiveId: id }) {
    // The copy can't contain its own digest, so the result in it has only the path.
    const copied = { id, result: JSON.stringify({ path: to }) };
    const { ledgers } = await exportLedgers(ledger, config.state, to, copied);
    return {
      path: to,
      ledgers: ledgers.map(({ tenant, file, sha256, tables }) => ({
        tenant,
        file,
        sha256,
        rows: Object.values(tables).reduce((sum, { rows }) => sum + rows, 0),
      })),
    };
  },
  operation: {
    ...commonOperation,
    output: z.object({
      path: z.string(),
      ledgers: z.array(
        z.object({
          tenant: z.string().nullable().describe('null for the root database'),
          file: z.string(),
          sha256: z.string(),
          rows: z.int(),
        }),
      ),
      directive_id: directiveIdField,
    }),
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
  },
});

/** Throws if the copy of a ledger can't be written to this path. */
function requireNewFile(path: string): void {
  if (existsSync(path)) {
    throw makeRefusal(`${path} already exists`, 'Choose a file that does not exist yet.');
  }
  const directory = dirname(path);
  if (!existsSync(directory)) {
    const hint = 'Create the directory, or choose another one.';
    throw makeRefusal(`there is no directory ${directory}`, hint);
  }
  requireWritable(directory);
}

/** Throws if copies can't be written into this directory. It and its parents need not exist. */
function requireEmptyDirectory(path: string): void {
  const hint = 'Choose a directory that does not exist yet.';
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return requireWritable(findExistingParent(path));
  if (!stats.isDirectory()) throw makeRefusal(`${path} is not a directory`, hint);
  requireWritable(path);
  if (readdirSync(path).length > 0) throw makeRefusal(`${path} is not empty`, hint);
}

function findExistingParent(path: string): string {
  const above = dirname(path);
  return above === path || existsSync(above) ? above : findExistingParent(above);
}

function requireWritable(directory: string): void {
  try {
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const message = `${directory} cannot be written to: ${messageOf(error)}`;
    throw makeRefusal(
      message,
      'Choose another directory, or let the user of the service write there.',
    );
  }
}

function makeRefusal(message: string, hint: string): DuctileError {
  return new DuctileError('BACKUP_REFUSED', message, { place: 'params.to', hint });
}
