import type { LedgerContext } from '../engine/context.ts';
import { backupType, exportType, type CopyChoice } from './backup-directives.ts';
import { refuseCopyDirectory, refuseCopyFile } from './copy-location.ts';
import { exportLedgers } from './transfer.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';

export function backupDirective({ ledger }: LedgerContext): DirectiveDefinition<CopyChoice> {
  return {
    ...backupType,
    plan({ to }) {
      refuseCopyFile(to);
      return [`The ${ledger.kind} ledger would be copied to ${to}.`];
    },
    async execute({ to }, { directiveId: id }) {
      const result = { path: to };
      await ledger.backup(to, { id, result: JSON.stringify(result) });
      return result;
    },
  };
}

export function exportDirective(context: LedgerContext): DirectiveDefinition<CopyChoice> {
  const { ledger } = context;
  return {
    ...exportType,
    async plan({ to }) {
      refuseCopyDirectory(to);
      const count = (await ledger.tenants.list()).length;
      return [
        `The ${ledger.kind} root ledger and those of ${count} tenants would be copied into ${to}.`,
        'The key of credentials is not copied: it stays in the state directory.',
      ];
    },
    async execute({ to }, { directiveId: id }) {
      // The copy can't hold the digest of itself, so its result names the place alone.
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
