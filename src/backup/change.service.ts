import { accessSync, constants, existsSync, readdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DuctileError, messageOf } from '../base/errors.ts';
import type { LedgerContext } from '../engine/context.ts';
import { backupType, exportType, type CopyParams } from './directives.ts';
import { exportLedgers } from '../ledger/transfer.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';

export function backupDirective({ ledger }: LedgerContext): DirectiveDefinition<CopyParams> {
  return {
    ...backupType,
    plan({ to }) {
      requireNewFile(to);
      return [`The ${ledger.kind} ledger would be copied to ${to}.`];
    },
    async execute({ to }, { directiveId: id }) {
      const result = { path: to };
      await ledger.backup(to, { id, result: JSON.stringify(result) });
      return result;
    },
  };
}

export function exportDirective(context: LedgerContext): DirectiveDefinition<CopyParams> {
  const { ledger } = context;
  return {
    ...exportType,
    async plan({ to }) {
      requireEmptyDirectory(to);
      const count = (await ledger.tenants.list()).length;
      return [
        `The ${ledger.kind} root ledger and those of ${count} tenants would be copied into ${to}.`,
        'The key of credentials is not copied: it stays in the state directory.',
      ];
    },
    async execute({ to }, { directiveId: id }) {
      // The copy can't contain its own digest, so the result in it has only the path.
      const copied = { id, result: JSON.stringify({ path: to }) };
      const { ledgers } = await exportLedgers(ledger, context.config.state, to, copied);
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
  };
}

/** Throws if the copy of a ledger can't be written to this path. */
function requireNewFile(path: string): void {
  if (existsSync(path)) {
    throw makeRefusal(`${path} exists already`, 'Name a file that does not exist yet.');
  }
  const directory = dirname(path);
  if (!existsSync(directory)) {
    throw makeRefusal(`there is no directory ${directory}`, 'Make the directory, or name another.');
  }
  requireWritable(directory);
}

/** Throws if copies can't be written into this directory. It and its parents need not exist. */
function requireEmptyDirectory(path: string): void {
  const hint = 'Name a directory that does not exist yet.';
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
      'Name another place, or let the user that runs the server write there.',
    );
  }
}

function makeRefusal(message: string, hint: string): DuctileError {
  return new DuctileError('BACKUP_REFUSED', message, { place: 'params.to', hint });
}
