import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { nonBlankText } from '../base/fields.ts';
import { parseJson } from '../base/parse-json.ts';
import { installationStatuses } from './package.ts';
import type { InstallationRow } from './types.ts';
import { defineOperation } from '../operation/define.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';

const time = z.string().describe('UTC, ISO 8601 with milliseconds');

const shape = {
  installation_id: z.string(),
  package: z.string(),
  version: z.string(),
  status: z
    .enum(installationStatuses)
    .describe('`failed`: it is installed, and a process could not put it in force'),
  last_error: z.string().nullable(),
  installed_by: z.string(),
  installed_at: time,
  updated_at: time,
  directive_id: z.string().describe('the last change of it'),
};

export const listInstallations = defineOperation({
  name: 'installation.list',
  summary: 'List what is installed.',
  effect: 'read',
  scope: 'installations:ro',
  needs: 'ledger',
  input: z.strictObject({
    all: z.boolean().default(false).describe('also what was uninstalled'),
    ...pageFields,
  }),
  output: z.object({ installations: z.array(z.object(shape)), next_cursor: nextCursorField }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/installations' },
  cli: {
    examples: ['ductile installation list', 'ductile installation list --all'],
    isDefault: true,
    table: {
      rows: 'installations',
      columns: [
        ['PACKAGE', 'package'],
        ['VERSION', 'version'],
        ['STATUS', 'status'],
        ['BY', 'installed_by'],
        ['SINCE', 'installed_at'],
        ['ERROR', 'last_error'],
        ['ID', 'installation_id', 'detail'],
      ],
      empty: 'Nothing is installed.',
    },
  },
  async run({ engine: { ledger } }, { all, ...asked }) {
    const rows = await ledger.installations.list({ withEnded: all });
    const { page, next } = cutPage(
      rows,
      ({ slug, installedAt, id }) => `${slug} ${installedAt} ${id}`,
      asked,
    );
    return { installations: page.map(show), next_cursor: next };
  },
});

export const showInstallation = defineOperation({
  name: 'installation.show',
  summary: 'Show an installation, what it was told and what it brought.',
  effect: 'read',
  scope: 'installations:ro',
  needs: 'ledger',
  input: z.strictObject({
    installation: nonBlankText().describe('its id, or the name of its package'),
  }),
  output: z.object({
    ...shape,
    revision: z.int().describe('counts its changes'),
    hash: z.string().describe('BLAKE3 of the files of the package'),
    config: z.record(z.string(), z.unknown()),
    provisions: z.array(
      z.object({
        kind: z.string(),
        name: z.string(),
        provisioned_at: time,
        removed_at: time.nullable(),
      }),
    ),
  }),
  errors: ['INPUT_INVALID', 'INSTALLATION_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/installations/:installation' },
  cli: {
    positionals: ['installation'],
    examples: ['ductile installation show folder-notify'],
  },
  async run({ engine: { ledger } }, { installation: wanted }) {
    const [byId] = await ledger.installations.list({ id: wanted, withEnded: true });
    const named =
      byId === undefined ? await ledger.installations.list({ slug: wanted, withEnded: true }) : [];
    const there = named.find(({ status }) => status !== 'uninstalled');
    // Of what was taken away the last one is meant.
    const row = byId ?? there ?? named.at(-1);
    if (row === undefined) {
      const message = `there is no installation ${wanted}`;
      throw new DuctileError('INSTALLATION_NOT_FOUND', message, { place: 'installation' });
    }
    const provisions = await ledger.installations.listProvenance(row.id);
    return {
      ...show(row),
      revision: row.revision,
      hash: row.hash,
      config: parseJson(row.config) as Record<string, unknown>,
      provisions: provisions.map(({ kind, name, provisionedAt, removedAt }) => ({
        kind,
        name,
        provisioned_at: provisionedAt,
        removed_at: removedAt,
      })),
    };
  },
});

function show(row: InstallationRow) {
  return {
    installation_id: row.id,
    package: row.slug,
    version: row.version,
    status: row.status,
    last_error: row.lastError,
    installed_by: row.installedBy,
    installed_at: row.installedAt,
    updated_at: row.updatedAt,
    directive_id: row.directiveId,
  };
}
