import * as z from 'zod';
import { limits } from '../base/limits.ts';
import { nonBlankText } from '../base/fields.ts';
import { parseStoredJson } from '../base/json.ts';
import { pluginName } from '../config/fields.ts';
import {
  readSeqCursor,
  readEpoch,
  writeCursor,
  nextCursorField,
  pageFields,
} from '../operation/page.ts';
import { defineOperation } from '../operation/define.ts';
import { refuseUnknownPlugin } from './catalog.ts';

const FACTS_DEFAULT = 20;
const KIND = 'facts';

export const pluginFacts = defineOperation({
  name: 'plugin.facts',
  summary: 'List what a plugin has recorded, the latest first.',
  effect: 'read',
  scope: (_context, { plugin }) => ({ plugin, type: 'read' }),
  offeredWith: 'plugin',
  input: z.strictObject({
    plugin: pluginName().describe('the name of the plugin'),
    fact_type: nonBlankText().optional().describe('only facts of this type'),
    limit: z
      .int()
      .min(1)
      .max(limits.pageRowsMax)
      .default(FACTS_DEFAULT)
      .describe('at most this many'),
    cursor: pageFields.cursor,
  }),
  output: z.object({
    plugin: z.string(),
    fact_type: z.string().nullable(),
    next_cursor: nextCursorField,
    facts: z.array(
      z.object({
        seq: z.int().describe('the order over all plugins'),
        plugin: z.string(),
        fact_type: z.string(),
        job_id: z.string().nullable(),
        command: z.string().nullable(),
        fact: z.unknown(),
        created_at: z.string(),
      }),
    ),
  }),
  errors: ['CURSOR_RESET', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'PLUGIN_NOT_FOUND'],
  http: { method: 'GET', path: '/plugin/:plugin/facts' },
  cli: {
    positionals: ['plugin'],
    flags: { limit: '-n, --limit <count>' },
    examples: ['ductile plugin facts mail', 'ductile plugin facts mail --fact-type mail.snapshot'],
    table: {
      rows: 'facts',
      columns: [
        ['SEQ', 'seq'],
        ['TYPE', 'fact_type'],
        ['CREATED', 'created_at'],
        ['FACT', 'fact'],
        ['JOB', 'job_id', 'detail'],
      ],
      empty: 'It has recorded nothing.',
    },
  },
  async run({ engine: { ledger, catalog } }, { plugin, fact_type: factType, limit, cursor }) {
    const epoch = await readEpoch(ledger);
    const beforeSeq = cursor === undefined ? undefined : readSeqCursor(KIND, epoch, cursor);
    const facts = await ledger.plugins.listFacts(plugin, limit, factType, beforeSeq);
    if (facts.length === 0 && cursor === undefined) refuseUnknownPlugin(catalog, plugin);
    const last = facts.at(-1);
    const isLast = facts.length < limit || last === undefined;
    return {
      plugin,
      fact_type: factType ?? null,
      next_cursor: isLast ? null : writeCursor(KIND, epoch, [last.seq]),
      facts: facts.map((fact) => ({
        seq: fact.seq,
        plugin: fact.plugin,
        fact_type: fact.factType,
        job_id: fact.jobId,
        command: fact.command,
        fact: parseStoredJson(fact.fact),
        created_at: fact.createdAt,
      })),
    };
  },
});
