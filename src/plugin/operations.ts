import * as z from 'zod';
import type { Problem } from '../config/problem.ts';
import { refuseUnknownPlugin, type Catalog, type Plugin } from './catalog.ts';
import { defineOperation } from '../operation/define.ts';
import { readHealth } from './health.operations.ts';
import { allows } from '../access/scopes.ts';
import {
  cutPage,
  nextCursorField,
  pageFields,
  readEpoch,
  readSeqCursor,
  writeCursor,
} from '../operation/page.ts';
import { nonBlankText } from '../base/fields.ts';
import { isObject, parseStoredJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { maskSecrets } from '../base/secrets.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { pluginName } from '../config/fields.ts';

const problemShape = z.object({
  plugin: z.string().nullable(),
  place: z.string(),
  message: z.string(),
  hint: z.string().nullable(),
});

export const pluginProblemsShape = z.array(problemShape);

export const listPlugins = defineOperation({
  name: 'plugin.list',
  summary: 'List plugins, and the reasons why plugins did not load.',
  effect: 'read',
  scope: undefined,
  input: z.strictObject(pageFields),
  output: z.object({
    plugins: z.array(
      z.object({
        name: z.string(),
        uses: z.string().nullable().describe('the plugin whose code runs under this name'),
        version: z.string(),
        description: z.string().nullable(),
        commands: z.array(z.string()),
        types: z.record(z.string(), z.enum(['read', 'write'])).describe('the type of each command'),
        parallelism: z.int(),
        health: z
          .enum(['healthy', 'pending', 'unhealthy'])
          .nullable()
          .optional()
          .describe('the result of its init; null if it has none'),
        reason: z.string().nullable().optional().describe('why it is unhealthy'),
        enabled: z.boolean().optional().describe('false after `plugin disable`'),
      }),
    ),
    next_cursor: nextCursorField,
    dormant: z
      .record(z.string(), z.array(z.string()))
      .optional()
      .describe('plugins that are not set up yet, each with the configuration keys that it needs'),
    disabled: z.array(z.string()).optional(),
    problems: pluginProblemsShape.optional(),
    warnings: pluginProblemsShape.optional(),
  }),
  errors: ['INPUT_INVALID'],
  http: {
    method: 'GET',
    path: '/plugins',
    also: ['/skills'],
    // Not cached for callers with more rights: they also see health and problems, which change.
    cachedBy: ({ engine, principal }) =>
      allows(principal.scopes, 'plugin:ro') ? undefined : engine.catalog,
  },
  cli: {
    examples: ['ductile plugin list', 'ductile plugin list --json'],
    alias: { name: 'plugins' },
  },
  async run({ engine: { catalog, ledger }, principal }, request) {
    const { page, next } = cutPage([...catalog.plugins.values()], ({ name }) => name, request);
    const plugins = page.map(showPlugin);
    // Callers without plugin:ro don't see locations and failures.
    if (!allows(principal.scopes, 'plugin:ro')) return { plugins, next_cursor: next };
    const known = await readHealth(ledger, catalog);
    const off = new Set((await ledger.plugins.listDisabled()).map(({ plugin }) => plugin));
    return {
      plugins: plugins.map((plugin) => {
        const { status = null, reason = null } = known.get(plugin.name)?.init ?? {};
        return { ...plugin, health: status, reason, enabled: !off.has(plugin.name) };
      }),
      next_cursor: next,
      dormant: Object.fromEntries([...catalog.dormant].map(([name, keys]) => [name, [...keys]])),
      disabled: [...catalog.disabled],
      ...showPluginProblems(catalog),
    };
  },
});

export function showPluginProblems({ problems, warnings }: Catalog): {
  problems: z.output<typeof pluginProblemsShape>;
  warnings: z.output<typeof pluginProblemsShape>;
} {
  return {
    problems: problems.map((problem) => ({
      ...showPluginProblem(problem),
      plugin: problem.plugin,
    })),
    warnings: warnings.map(showPluginProblem),
  };
}

export function showPluginProblem({
  place,
  key,
  message,
  hint,
}: Problem): z.output<typeof problemShape> {
  return { plugin: null, place, message: `${key} ${message}`.trim(), hint: hint ?? null };
}

function showPlugin({ name, uses, manifest, parallelism }: Plugin) {
  const commands = Object.values(manifest.commands);
  return {
    name,
    uses: uses ?? null,
    version: manifest.version,
    description: manifest.description ?? null,
    commands: commands.map((command) => command.name),
    types: Object.fromEntries(commands.map((command) => [command.name, command.type])),
    parallelism,
  };
}

export const pluginStateShape = z.object({
  plugin: z.string(),
  bytes: z.int(),
  state: z
    .record(z.string(), z.unknown())
    .nullable()
    .describe('its row of `plugin_state`, without secrets; null when it is too long to be shown'),
});

const SHOWN_BYTES_MAX = 4096;

/** Reads the state of every active plugin that has one. */
export async function readPluginStates(
  ledger: Ledger,
  { plugins }: Catalog,
): Promise<z.output<typeof pluginStateShape>[]> {
  const views: z.output<typeof pluginStateShape>[] = [];
  // In sequence, so that a reader doesn't use up the connections of workers.
  for (const plugin of [...plugins.keys()].toSorted()) {
    const text = await ledger.plugins.readState(plugin);
    if (text === '{}') continue;
    const bytes = Buffer.byteLength(text);
    const state = bytes > SHOWN_BYTES_MAX ? null : parseStoredJson(text);
    views.push({ plugin, bytes, state: isObject(state) ? maskSecrets(state) : null });
  }
  return views;
}

const FACTS_DEFAULT = 20;
const FACTS_CURSOR = 'facts';

export const pluginFacts = defineOperation({
  name: 'plugin.facts',
  summary: 'List the facts of a plugin, newest first.',
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
      .describe(`maximum number of facts (default: ${FACTS_DEFAULT})`),
    cursor: pageFields.cursor,
  }),
  output: z.object({
    plugin: z.string(),
    fact_type: z.string().nullable(),
    next_cursor: nextCursorField,
    facts: z.array(
      z.object({
        seq: z.int().describe('the order of the fact among those of all plugins'),
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
      empty: 'The plugin has recorded no facts.',
    },
  },
  async run({ engine: { ledger, catalog } }, { plugin, fact_type: factType, limit, cursor }) {
    const epoch = await readEpoch(ledger);
    const beforeSeq = cursor === undefined ? undefined : readSeqCursor(FACTS_CURSOR, epoch, cursor);
    const facts = await ledger.plugins.listFacts(plugin, limit, factType, beforeSeq);
    if (facts.length === 0 && cursor === undefined) refuseUnknownPlugin(catalog, plugin);
    const last = facts.at(-1);
    const isLast = facts.length < limit || last === undefined;
    return {
      plugin,
      fact_type: factType ?? null,
      next_cursor: isLast ? null : writeCursor(FACTS_CURSOR, epoch, [last.seq]),
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
